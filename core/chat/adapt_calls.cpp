// Adaptations of calls and their arguments.
#include <optional>

#include "core/base/error.h"
#include "core/chat/adapt.h"
#include "core/chat/conversation.h"
#include "core/chat/template_error.h"

namespace quire::chat {
namespace {

// Returns the object that a text contains as JSON, if it does.
std::optional<JsonValue> parsed_object(const std::string& text) {
  try {
    JsonValue parsed = parse_json(text, "arguments");
    if (parsed.as_object() != nullptr) return parsed;
  } catch (const Error&) {  // not JSON: stays a text
  }
  return std::nullopt;
}

// Calls `edit(arguments)` with the arguments of each call, and records a change if it returns true.
template <typename Edit>
void edit_arguments(History& history, Adaptation adaptation, Edit&& edit) {
  for (Turn& turn : history.turns) {
    edit_functions(turn, [&](JsonValue::Object& function, size_t call_idx) {
      JsonValue* arguments = find_member(function, "arguments");
      if (arguments == nullptr || !edit(*arguments)) return;
      history.note(adaptation, turn, call_field(call_idx, "function.arguments"));
    });
  }
}

}  // namespace

void arguments_as_object(History& history) {
  edit_arguments(history, Adaptation::arguments_as_object, [](JsonValue& arguments) {
    const std::string* text = arguments.as_string();
    std::optional<JsonValue> parsed = text == nullptr ? std::nullopt : parsed_object(*text);
    if (parsed) arguments = std::move(*parsed);
    return parsed.has_value();
  });
}

void arguments_as_text(History& history) {
  edit_arguments(history, Adaptation::arguments_as_text, [](JsonValue& arguments) {
    if (arguments.as_string() != nullptr) return false;
    arguments = JsonValue(json_text(arguments));
    return true;
  });
}

void empty_arguments_as_object(History& history) {
  for (Turn& turn : history.turns) {
    edit_functions(turn, [&](JsonValue::Object& function, size_t call_idx) {
      if (find_text(function, "name") == nullptr) return;
      const JsonValue* arguments = find_member(function, "arguments");
      const std::string* text = arguments == nullptr ? nullptr : arguments->as_string();
      const bool is_empty =
          arguments == nullptr || arguments->is_null() || (text != nullptr && is_blank(*text));
      if (!is_empty) return;
      set_member(function, "arguments", JsonValue(JsonValue::Object()));
      history.note(Adaptation::empty_arguments_as_object, turn, call_field(call_idx, "function.arguments"));
    });
  }
}

void empty_calls_left_out(History& history) {
  for (Turn& turn : history.turns) {
    const JsonValue* calls = find_member(turn.members, "tool_calls");
    if (calls == nullptr || calls->as_array() == nullptr || !calls->as_array()->empty()) continue;
    remove_member(turn.members, "tool_calls");
    history.note(Adaptation::empty_calls_left_out, turn, "tool_calls");
  }
}

void fill_call_types(History& history) {
  for (Turn& turn : history.turns) {
    edit_calls(turn, [&](JsonValue::Object& call, size_t call_idx) {
      if (find_member(call, "type") != nullptr) return;
      set_member(call, "type", JsonValue(std::string("function")));
      history.note(Adaptation::fill_call_types, turn, call_field(call_idx, "type"));
    });
  }
}

void function_as_tool(History& history) {
  for (Turn& turn : history.turns) {
    if (turn.has_role("function")) {
      turn.set_role("tool");
      history.note(Adaptation::function_as_tool, turn, "role");
      continue;
    }
    JsonValue function = remove_member(turn.members, "function_call");
    if (function.as_object() == nullptr) continue;
    JsonValue::Object call;
    set_member(call, "type", JsonValue(std::string("function")));
    set_member(call, "function", std::move(function));
    JsonValue::Array calls;
    calls.emplace_back(std::move(call));
    set_member(turn.members, "tool_calls", JsonValue(std::move(calls)));
    history.note(Adaptation::function_as_tool, turn, "function_call");
  }
}

void calls_as_text(History& history) {
  for (Turn& turn : history.turns) {
    if (!turn.has_calls()) continue;
    std::string lines;
    edit_functions(turn, [&](JsonValue::Object& function, size_t /*call_idx*/) {
      JsonValue::Object call;
      set_member(call, "name", remove_member(function, "name"));
      set_member(call, "arguments", remove_member(function, "arguments"));
      lines += (lines.empty() ? "" : "\n") + json_text(JsonValue(std::move(call)));
    });
    remove_member(turn.members, "tool_calls");
    set_member(turn.members, "content",
               merged_contents(remove_member(turn.members, "content"), JsonValue(std::move(lines))));
    history.note(Adaptation::calls_as_text, turn, "tool_calls");
  }
}

}  // namespace quire::chat
