// Adaptations of roles.
#include <algorithm>
#include <utility>

#include "core/chat/adapt.h"

namespace quire::chat {
namespace {

// Moves the system messages from index `first` on to the user.
void move_to_user(History& history, size_t first, Adaptation adaptation) {
  std::vector<Turn> reversed;  // from the last message to the first
  for (size_t i = history.turns.size(); i-- > 0;) {
    Turn turn = std::move(history.turns[i]);
    if (i < first || !turn.has_role("system")) {
      reversed.push_back(std::move(turn));
      continue;
    }
    history.note(adaptation, turn, "role");
    if (reversed.empty() || !reversed.back().has_role("user")) {
      turn.set_role("user");
      reversed.push_back(std::move(turn));
      continue;
    }
    Turn& user = reversed.back();
    JsonValue content =
        merged_contents(remove_member(turn.members, "content"), remove_member(user.members, "content"));
    set_member(user.members, "content", std::move(content));
  }
  std::reverse(reversed.begin(), reversed.end());
  history.turns = std::move(reversed);
}

// Appends the content, the calls and further members of a message to the message before it.
void append_turn(Turn& before, Turn turn) {
  JsonValue content =
      merged_contents(remove_member(before.members, "content"), remove_member(turn.members, "content"));
  set_member(before.members, "content", std::move(content));
  JsonValue::Array calls = remove_member(before.members, "tool_calls").take_array();
  for (JsonValue& call : remove_member(turn.members, "tool_calls").take_array())
    calls.push_back(std::move(call));
  if (!calls.empty()) set_member(before.members, "tool_calls", JsonValue(std::move(calls)));
  for (JsonMember& member : turn.members) {
    if (find_member(before.members, member.key) == nullptr)
      set_member(before.members, member.key, std::move(member.value));
  }
}

}  // namespace

void developer_as_system(History& history) {
  for (Turn& turn : history.turns) {
    if (!turn.has_role("developer")) continue;
    turn.set_role("system");
    history.note(Adaptation::developer_as_system, turn, "role");
  }
}

void system_as_user(History& history) {
  move_to_user(history, 0, Adaptation::system_as_user);
}

void late_system_as_user(History& history) {
  size_t first = 0;
  while (first < history.turns.size() && history.turns[first].has_role("system")) ++first;
  move_to_user(history, first, Adaptation::late_system_as_user);
}

void merge_role(History& history, std::string_view role, Adaptation adaptation) {
  std::vector<Turn> out;
  for (Turn& turn : history.turns) {
    if (out.empty() || !turn.has_role(role) || !out.back().has_role(role)) {
      out.push_back(std::move(turn));
      continue;
    }
    history.note(adaptation, turn);
    append_turn(out.back(), std::move(turn));
  }
  history.turns = std::move(out);
}

}  // namespace quire::chat
