// Adaptations of the results of calls: which call they answer, and in which order they come.
#include <algorithm>

#include <fmt/core.h>

#include "core/base/ascii.h"
#include "core/base/sha256.h"
#include "core/chat/adapt.h"

namespace quire::chat {
namespace {

constexpr size_t kShortIdBytes = 9;  // required by the templates of Mistral

bool is_short_id(std::string_view id) {
  return id.size() == kShortIdBytes &&
         std::all_of(id.begin(), id.end(), [](char byte) { return is_ascii_letter_or_digit(byte); });
}

// Shortens the id at `key`; returns whether it changed.
bool shorten_id(JsonValue::Object& object, std::string_view key) {
  const std::string* id = find_text(object, key);
  if (id == nullptr || is_short_id(*id)) return false;
  set_member(object, key, JsonValue(sha256_hex(*id).substr(0, kShortIdBytes)));
  return true;
}

// Returns the index after the results that follow message `answer`.
size_t end_of_results(const History& history, size_t answer) {
  size_t end = answer + 1;
  while (end < history.turns.size() && history.turns[end].has_role("tool")) ++end;
  return end;
}

struct CallKey {
  std::string id;
  std::string name;
  bool is_answered = false;
};

std::vector<CallKey> keys_of(const Turn& turn) {
  std::vector<CallKey> keys;
  for (const JsonValue& call : turn.calls()) {
    const JsonValue* id = call.find("id");
    const JsonValue* function = call.find("function");
    const JsonValue* name = (function == nullptr ? call : *function).find("name");
    CallKey key;
    if (id != nullptr && id->as_string() != nullptr) key.id = *id->as_string();
    if (name != nullptr && name->as_string() != nullptr) key.name = *name->as_string();
    keys.push_back(std::move(key));
  }
  return keys;
}

// Returns the call that a result answers: the one with its id, otherwise the first without an answer that
// has its name, if it has one. Marks it as answered. Null if there is none.
const CallKey* answered_by(std::vector<CallKey>& keys, const Turn& result) {
  const std::string* id = find_text(result.members, "tool_call_id");
  const std::string* name = find_text(result.members, "name");
  const auto fits = [&](const CallKey& key) {
    if (id != nullptr && !key.id.empty()) return key.id == *id;
    return !key.is_answered && (name == nullptr || key.name == *name);
  };
  const auto found = std::find_if(keys.begin(), keys.end(), fits);
  if (found == keys.end()) return nullptr;
  found->is_answered = true;
  return &*found;
}

// Calls `visit(call, result)` for each result that answers a call.
template <typename Visit>
void for_each_answer(History& history, Visit&& visit) {
  for (size_t i = 0; i < history.turns.size(); ++i) {
    if (!history.turns[i].has_calls()) continue;
    std::vector<CallKey> keys = keys_of(history.turns[i]);
    const size_t end = end_of_results(history, i);
    for (size_t k = i + 1; k < end; ++k) {
      if (const CallKey* call = answered_by(keys, history.turns[k])) visit(*call, history.turns[k]);
    }
  }
}

bool lacks(const JsonValue::Object& object, std::string_view key) {
  return std::none_of(object.begin(), object.end(),
                      [&](const JsonMember& each) { return each.key == key && !each.value.is_null(); });
}

// Moves the result of a call to `out`: the one with its id, otherwise the first that is left.
void move_result(std::vector<Turn>& results, const CallKey& call, std::vector<Turn>& out) {
  if (results.empty()) return;
  auto found = std::find_if(results.begin(), results.end(), [&](const Turn& result) {
    const std::string* id = find_text(result.members, "tool_call_id");
    return id != nullptr && !call.id.empty() && *id == call.id;
  });
  if (found == results.end()) found = results.begin();
  out.push_back(std::move(*found));
  results.erase(found);
}

// Appends one message for each call, followed by its result. The first has the other members of the answer.
void append_single_calls(Turn answer, std::vector<Turn> results, std::vector<Turn>& out) {
  const std::vector<CallKey> keys = keys_of(answer);
  JsonValue::Array calls = remove_member(answer.members, "tool_calls").take_array();
  Turn single = std::move(answer);
  for (size_t i = 0; i < calls.size(); ++i) {
    JsonValue::Array one;
    one.push_back(std::move(calls[i]));
    set_member(single.members, "tool_calls", JsonValue(std::move(one)));
    const size_t idx = single.idx;
    out.push_back(std::move(single));
    move_result(results, keys[i], out);
    single = Turn{idx, {}};
    single.set_role("assistant");
    set_member(single.members, "content", JsonValue(std::string()));
  }
  for (Turn& rest : results) out.push_back(std::move(rest));
}

}  // namespace

void fill_call_ids(History& history) {
  size_t num_calls = 0;
  for (size_t i = 0; i < history.turns.size(); ++i) {
    Turn& turn = history.turns[i];
    const size_t end = end_of_results(history, i);
    edit_calls(turn, [&](JsonValue::Object& call, size_t call_idx) {
      const size_t number = num_calls++;
      if (!lacks(call, "id")) return;
      const size_t result = i + 1 + call_idx;
      const std::string* given =
          result < end ? find_text(history.turns[result].members, "tool_call_id") : nullptr;
      set_member(call, "id", JsonValue(given != nullptr ? *given : fmt::format("call{:05}", number)));
      history.note(Adaptation::fill_call_ids, turn, call_field(call_idx, "id"));
    });
  }
  for_each_answer(history, [&](const CallKey& call, Turn& result) {
    if (call.id.empty() || !lacks(result.members, "tool_call_id")) return;
    set_member(result.members, "tool_call_id", JsonValue(call.id));
    history.note(Adaptation::fill_call_ids, result, "tool_call_id");
  });
}

void short_call_ids(History& history) {
  for (Turn& turn : history.turns) {
    edit_calls(turn, [&](JsonValue::Object& call, size_t call_idx) {
      if (shorten_id(call, "id")) history.note(Adaptation::short_call_ids, turn, call_field(call_idx, "id"));
    });
    if (shorten_id(turn.members, "tool_call_id"))
      history.note(Adaptation::short_call_ids, turn, "tool_call_id");
  }
}

void fill_result_names(History& history) {
  for_each_answer(history, [&](const CallKey& call, Turn& result) {
    if (call.name.empty() || !lacks(result.members, "name")) return;
    set_member(result.members, "name", JsonValue(call.name));
    history.note(Adaptation::fill_result_names, result, "name");
  });
}

void split_text_and_calls(History& history) {
  std::vector<Turn> out;
  for (Turn& turn : history.turns) {
    const std::string* text = find_text(turn.members, "content");
    const bool has_parts = !lacks(turn.members, "content") && text == nullptr;
    if (!turn.has_calls() || !(has_parts || (text != nullptr && !is_blank(*text)))) {
      out.push_back(std::move(turn));
      continue;
    }
    history.note(Adaptation::split_text_and_calls, turn, "tool_calls");
    Turn calls{turn.idx, {}};
    calls.set_role(turn.role());
    set_member(calls.members, "content", JsonValue(std::string()));
    set_member(calls.members, "tool_calls", remove_member(turn.members, "tool_calls"));
    out.push_back(std::move(turn));
    out.push_back(std::move(calls));
  }
  history.turns = std::move(out);
}

void split_parallel_calls(History& history) {
  std::vector<Turn> out;
  for (size_t i = 0; i < history.turns.size();) {
    Turn& turn = history.turns[i];
    if (turn.calls().size() < 2) {
      out.push_back(std::move(turn));
      ++i;
      continue;
    }
    history.note(Adaptation::split_parallel_calls, turn, "tool_calls");
    const size_t end = end_of_results(history, i);
    std::vector<Turn> results;
    for (size_t k = i + 1; k < end; ++k) results.push_back(std::move(history.turns[k]));
    append_single_calls(std::move(turn), std::move(results), out);
    i = end;
  }
  history.turns = std::move(out);
}

void tool_as_user(History& history) {
  for (Turn& turn : history.turns) {
    if (!turn.has_role("tool")) continue;
    turn.set_role("user");
    remove_member(turn.members, "tool_call_id");
    remove_member(turn.members, "name");
    history.note(Adaptation::tool_as_user, turn, "role");
  }
}

}  // namespace quire::chat
