#include "core/chat/turns.h"

#include <algorithm>

#include <fmt/core.h>

#include "core/base/white_space.h"

namespace quire::chat {
namespace {

auto member_of(JsonValue::Object& object, std::string_view key) {
  return std::find_if(object.begin(), object.end(), [&](const JsonMember& each) { return each.key == key; });
}

// Appends a content to a list of parts.
void append_parts(JsonValue::Array& parts, JsonValue content) {
  if (content.is_null()) return;
  if (const std::string* text = content.as_string()) parts.push_back(text_part(*text));
  for (JsonValue& part : std::move(content).take_array()) parts.push_back(std::move(part));
}

}  // namespace

JsonValue* find_member(JsonValue::Object& object, std::string_view key) {
  const auto found = member_of(object, key);
  return found == object.end() ? nullptr : &found->value;
}

const std::string* find_text(const JsonValue::Object& object, std::string_view key) {
  for (const JsonMember& each : object) {
    if (each.key == key) return each.value.as_string();
  }
  return nullptr;
}

void set_member(JsonValue::Object& object, std::string_view key, JsonValue value) {
  if (JsonValue* found = find_member(object, key)) {
    *found = std::move(value);
  } else {
    object.push_back({std::string(key), std::move(value)});
  }
}

JsonValue remove_member(JsonValue::Object& object, std::string_view key) {
  const auto found = member_of(object, key);
  if (found == object.end()) return {};
  JsonValue value = std::move(found->value);
  object.erase(found);
  return value;
}

bool is_blank(std::string_view text) {
  return trimmed(text).empty();
}

std::string_view Turn::role() const {
  const std::string* text = find_text(members, "role");
  return text == nullptr ? std::string_view() : *text;
}

void Turn::set_role(std::string_view name) {
  set_member(members, "role", JsonValue(std::string(name)));
}

std::string_view Turn::content_role() const {
  for (const std::string_view own : {"user", "assistant", "tool"}) {
    if (has_role(own)) return own;
  }
  return "system";
}

gsl::span<const JsonValue> Turn::calls() const {
  for (const JsonMember& each : members) {
    if (each.key == "tool_calls" && each.value.as_array() != nullptr) return *each.value.as_array();
  }
  return {};
}

void History::note(Adaptation adaptation, const Turn& turn, std::string_view field) {
  changes.push_back({adaptation, fmt::format("messages[{}]{}{}", turn.idx, field.empty() ? "" : ".", field)});
}

std::string call_field(size_t call_idx, std::string_view field) {
  return fmt::format("tool_calls[{}].{}", call_idx, field);
}

JsonValue text_part(std::string text) {
  JsonValue::Object part;
  set_member(part, "type", JsonValue(std::string("text")));
  set_member(part, "text", JsonValue(std::move(text)));
  return JsonValue(std::move(part));
}

JsonValue merged_contents(JsonValue first, JsonValue second) {
  const std::string* begin = first.as_string();
  const std::string* end = second.as_string();
  if (first.is_null() || (begin != nullptr && begin->empty())) return second;
  if (second.is_null() || (end != nullptr && end->empty())) return first;
  if (begin != nullptr && end != nullptr) return JsonValue(*begin + "\n\n" + *end);
  JsonValue::Array parts;
  append_parts(parts, std::move(first));
  append_parts(parts, std::move(second));
  return JsonValue(std::move(parts));
}

}  // namespace quire::chat
