// Parses tool calls that are JSON objects.
#include <initializer_list>

#include "core/base/error.h"
#include "core/base/white_space.h"
#include "core/response/response_parser.h"

namespace quire {
namespace {

// Returns the text of a JSON string; other text is returned unchanged.
std::string decoded(std::string_view json) {
  try {
    const JsonValue value = parse_json(json, "call");
    if (const std::string* text = value.as_string()) return *text;
  } catch (const Error&) {
  }
  return std::string(json);
}

bool is_object(std::string_view json) {
  try {
    return parse_json(json, "call").as_object() != nullptr;
  } catch (const Error&) {
    return false;
  }
}

// Returns arguments as an object, whether given as an object or as a string that contains one.
std::string unwrapped(const std::string& json) {
  if (json == "null") return "{}";
  if (json.empty() || json.front() != '"') return json;
  std::string inner = decoded(json);
  return is_object(inner) ? inner : json;
}

bool is_any_of(std::string_view key, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    if (key == name) return true;
  }
  return false;
}

}  // namespace

void ResponseParser::begin_object() {
  mode_ = Mode::object;
  object_.part = Part::key;
  object_.capture.clear();
  call_.held_arguments.reset();
  call_.name.clear();
  call_.id.clear();
  object_.num_keys = 0;
  call_.begun = false;
  object_.streaming = false;
}

bool ResponseParser::step_object() {
  const char byte = front();
  switch (object_.part) {
    case Part::key:
      object_key(byte);
      break;
    case Part::colon:
      if (byte == ':') object_.part = Part::value;
      if (byte == ':' || is_space(byte)) {
        consume(1);
      } else {
        end_broken_object();
      }
      break;
    case Part::value:
      object_value(byte);
      break;
    case Part::after_value:
      if (byte == '}') {
        consume(1);
        end_object();
      } else if (byte == ',' || is_space(byte)) {
        consume(1);
        if (byte == ',') object_.part = Part::key;
      } else {
        end_broken_object();
      }
      break;
  }
  return true;
}

void ResponseParser::object_key(char byte) {
  if (!object_.capture.empty()) {
    consume(1);
    if (object_.span.take(byte, object_.capture) == JsonSpan::Step::last) end_object_key();
  } else if (byte == '"') {
    consume(1);
    object_.span = {};
    object_.span.take(byte, object_.capture);
  } else if (byte == '}') {
    consume(1);
    end_object();
  } else if (byte == ',' || is_space(byte)) {
    consume(1);
  } else {
    end_broken_object();
  }
}

void ResponseParser::end_object_key() {
  const std::string key = decoded(object_.capture);
  object_.capture.clear();
  object_.part = Part::colon;
  object_.role = Role::other;
  const ObjectSyntax& object = section_.form->object;
  if (object.name_is_key) {
    call_.name = key;
    object_.role = Role::arguments;
    return;
  }
  if (key == object.name || is_any_of(key, {"name", "tool_name"})) object_.role = Role::name;
  if (key == object.arguments || is_any_of(key, {"arguments", "parameters"})) object_.role = Role::arguments;
  if ((!object.id.empty() && key == object.id) || is_any_of(key, {"id", "tool_call_id"}))
    object_.role = Role::id;
  const bool may_be_call = object_.role != Role::other || key == "type";
  if (object_.num_keys++ == 0 && section_.form->bare && !may_be_call) fail();
}

void ResponseParser::object_value(char byte) {
  if (object_.capture.empty() && !object_.streaming) {
    if (is_space(byte)) {
      consume(1);
      return;
    }
    object_.span = {};
    object_.streaming = object_.role == Role::arguments && !call_.name.empty() && byte == '{' && !call_.begun;
    if (object_.streaming) begin_call();
  }
  std::string out;
  const JsonSpan::Step step = object_.span.take(byte, out);
  if (step == JsonSpan::Step::refused) {
    if (object_.streaming || object_.capture.empty()) {
      end_broken_object();
    } else {
      end_object_value();
    }
    return;
  }
  consume(1);
  if (object_.streaming) {
    emit(Kind::arguments, std::move(out));
  } else {
    object_.capture += out;
  }
  if (step == JsonSpan::Step::last) end_object_value();
}

void ResponseParser::end_object_value() {
  object_.part = Part::after_value;
  const std::string value = std::move(object_.capture);
  object_.capture.clear();
  if (object_.role == Role::id) call_.id = decoded(value);
  if (object_.role == Role::arguments && !object_.streaming) call_.held_arguments = unwrapped(value);
  if (object_.role == Role::name && !call_.begun) {
    call_.name = value.front() == '"' ? decoded(value) : "";
    const bool unknown = section_.form->bare && !tools_.tools().empty() && tools_.find(call_.name) == nullptr;
    if (call_.name.empty() || unknown) {
      fail();
      return;
    }
  }
  object_.streaming = false;
  if (!call_.begun && call_.held_arguments && !call_.name.empty()) {
    begin_call();
    emit(Kind::arguments, *call_.held_arguments);
  }
  if (!section_.form->object.name_is_key) return;
  end_call();
  call_.name.clear();
  call_.held_arguments.reset();
  mode_ = Mode::object;
}

void ResponseParser::end_object() {
  if (call_.begun) {
    end_call();
  } else if (!call_.name.empty() && !section_.form->bare && !section_.form->object.name_is_key) {
    begin_call();
    emit(Kind::arguments, "{}");
    end_call();
  } else if (section_.has_call) {
    emit_raw(Kind::markup);
    mode_ = Mode::section;
  } else {
    fail();
  }
}

// Handles a byte that cannot continue the object.
void ResponseParser::end_broken_object() {
  if (call_.begun) {
    end_call();
  } else {
    fail();
  }
}

}  // namespace quire
