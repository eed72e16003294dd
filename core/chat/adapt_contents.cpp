// Adaptations of the contents of messages.
#include <algorithm>
#include <optional>
#include <utility>

#include "core/chat/adapt.h"

namespace quire::chat {
namespace {

// True if the message has no content, or null.
bool lacks_content(Turn& turn) {
  const JsonValue* content = find_member(turn.members, "content");
  return content == nullptr || content->is_null();
}

void set_content(History& history, Turn& turn, JsonValue content, Adaptation adaptation) {
  set_member(turn.members, "content", std::move(content));
  history.note(adaptation, turn, "content");
}

// Returns the text of a text part; null for other parts.
const std::string* text_of_part(const JsonValue& part) {
  const JsonValue* type = part.find("type");
  if (type == nullptr || type->as_string() == nullptr || !is_text_part(*type->as_string())) return nullptr;
  for (const char* key : {"text", "refusal"}) {
    const JsonValue* text = part.find(key);
    if (text != nullptr && text->as_string() != nullptr) return text->as_string();
  }
  return nullptr;
}

std::optional<std::string> joined_parts(const JsonValue::Array& parts) {
  std::string text;
  const char* separator = "";
  for (const JsonValue& part : parts) {
    const std::string* piece = text_of_part(part);
    if (piece == nullptr) return std::nullopt;
    text.append(separator).append(*piece);
    separator = "\n";
  }
  return text;
}

}  // namespace

void reasoning_as_reasoning_content(History& history) {
  for (Turn& turn : history.turns) {
    const std::string* reasoning = find_text(turn.members, "reasoning");
    if (reasoning == nullptr || find_text(turn.members, "reasoning_content") != nullptr ||
        find_text(turn.members, "thinking") != nullptr) {
      continue;
    }
    set_member(turn.members, "reasoning_content", JsonValue(*reasoning));
    history.note(Adaptation::reasoning_as_reasoning_content, turn, "reasoning");
  }
}

void typed_part_as_text(History& history) {
  for (Turn& turn : history.turns) {
    JsonValue* content = find_member(turn.members, "content");
    if (content == nullptr || content->as_array() == nullptr) continue;
    JsonValue::Array parts = std::move(*content).take_array();
    bool is_changed = false;
    for (JsonValue& part : parts) {
      const std::string* text = text_of_part(part);
      if (text == nullptr || *part.find("type")->as_string() == "text") continue;
      part = text_part(*text);
      is_changed = true;
    }
    *content = JsonValue(std::move(parts));
    if (is_changed) history.note(Adaptation::typed_part_as_text, turn, "content");
  }
}

void null_as_empty(History& history) {
  for (Turn& turn : history.turns) {
    if (!turn.has_calls() && lacks_content(turn))
      set_content(history, turn, JsonValue(std::string()), Adaptation::null_as_empty);
  }
}

void null_result_as_empty(History& history) {
  for (Turn& turn : history.turns) {
    if ((turn.has_role("tool") || turn.has_role("function")) && lacks_content(turn))
      set_content(history, turn, JsonValue(std::string()), Adaptation::null_result_as_empty);
  }
}

void call_null_as_empty(History& history) {
  for (Turn& turn : history.turns) {
    if (turn.has_calls() && lacks_content(turn))
      set_content(history, turn, JsonValue(std::string()), Adaptation::call_null_as_empty);
  }
}

void call_null_kept(History& history) {
  for (Turn& turn : history.turns) {
    if (turn.has_calls() && lacks_content(turn))
      set_content(history, turn, JsonValue(), Adaptation::call_null_kept);
  }
}

void call_empty_as_null(History& history) {
  for (Turn& turn : history.turns) {
    const std::string* text = find_text(turn.members, "content");
    const bool is_empty = text == nullptr ? find_member(turn.members, "content") == nullptr : is_blank(*text);
    if (turn.has_calls() && is_empty) set_content(history, turn, JsonValue(), Adaptation::call_empty_as_null);
  }
}

void text_as_parts(History& history, std::string_view role, Adaptation adaptation) {
  for (Turn& turn : history.turns) {
    const std::string* text = find_text(turn.members, "content");
    if (turn.content_role() != role || text == nullptr) continue;
    JsonValue::Array parts;
    parts.push_back(text_part(*text));
    set_content(history, turn, JsonValue(std::move(parts)), adaptation);
  }
}

void parts_as_text(History& history, std::string_view role, Adaptation adaptation) {
  for (Turn& turn : history.turns) {
    const JsonValue* content = find_member(turn.members, "content");
    if (turn.content_role() != role || content == nullptr || content->as_array() == nullptr) continue;
    std::optional<std::string> text = joined_parts(*content->as_array());
    if (text) set_content(history, turn, JsonValue(std::move(*text)), adaptation);
  }
}

}  // namespace quire::chat
