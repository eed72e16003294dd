// The messages of a conversation while they are adapted: JSON objects that can be changed.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gsl/gsl>

#include "core/base/json.h"
#include "core/chat/adaptation.h"

namespace quire::chat {

// --- Members of an object

JsonValue* find_member(JsonValue::Object& object, std::string_view key);
// Returns the text of a member; null if it is missing or not a text.
const std::string* find_text(const JsonValue::Object& object, std::string_view key);
// Replaces a member, or adds it at the end.
void set_member(JsonValue::Object& object, std::string_view key, JsonValue value);
// Removes a member and returns its value; null if it is missing.
JsonValue remove_member(JsonValue::Object& object, std::string_view key);
bool is_blank(std::string_view text);

// --- Messages

struct Turn {
  size_t idx = 0;  // of the message in the caller's list
  JsonValue::Object members;

  std::string_view role() const;
  bool has_role(std::string_view name) const { return role() == name; }
  void set_role(std::string_view name);
  // Returns the role whose adaptations the content takes: user, assistant and tool have their own, all other
  // roles those of system.
  std::string_view content_role() const;
  // Returns the calls of the message, of which there may be none.
  gsl::span<const JsonValue> calls() const;
  bool has_calls() const { return !calls().empty(); }
};

struct History {
  std::vector<Turn> turns;
  std::vector<HistoryChange> changes;

  // Records a change of a message, or of a field of it such as "content".
  void note(Adaptation adaptation, const Turn& turn, std::string_view field = {});
};

// Returns the name of a field inside a call, such as "tool_calls[0].id".
std::string call_field(size_t call_idx, std::string_view field);

// Calls `edit(call, index)` with the members of each call that is an object.
template <typename Edit>
void edit_calls(Turn& turn, Edit&& edit) {
  if (!turn.has_calls()) return;
  JsonValue* member = find_member(turn.members, "tool_calls");
  JsonValue::Array calls = std::move(*member).take_array();
  for (size_t i = 0; i < calls.size(); ++i) {
    if (calls[i].as_object() == nullptr) continue;
    JsonValue::Object call = std::move(calls[i]).take_object();
    edit(call, i);
    calls[i] = JsonValue(std::move(call));
  }
  *member = JsonValue(std::move(calls));
}

// Calls `edit(function, index)` with the object of each call that has name and arguments: its `function`, or
// the call itself.
template <typename Edit>
void edit_functions(Turn& turn, Edit&& edit) {
  edit_calls(turn, [&](JsonValue::Object& call, size_t call_idx) {
    JsonValue* member = find_member(call, "function");
    if (member == nullptr || member->as_object() == nullptr) return edit(call, call_idx);
    JsonValue::Object function = std::move(*member).take_object();
    edit(function, call_idx);
    *member = JsonValue(std::move(function));
  });
}

// Returns a part of a content, of the type text.
JsonValue text_part(std::string text);
// Returns both contents as one, in this order: texts with an empty line between them, or lists of parts.
JsonValue merged_contents(JsonValue first, JsonValue second);

}  // namespace quire::chat
