// Parses tool calls that are JSON objects.
#include <initializer_list>

#include "core/base/error.h"
#include "core/base/white_space.h"
#include "core/response/json_span.h"
#include "core/response/loose_reader.h"
#include "core/response/response_parser.h"

namespace quire {
namespace {

// Returns the text of a JSON string; empty if it is something else.
std::string decoded(const std::string& json) {
  std::string text, cut;
  append_utf8_json(text, json, cut);
  try {
    const JsonValue value = parse_json(text, "call");
    if (const std::string* string = value.as_string()) return *string;
  } catch (const Error&) {
  }
  return "";
}

// Returns the object at the beginning of a text as JSON; empty if there is none or text follows it.
std::string object_of(std::string_view text) {
  text = trimmed(text);
  if (text.substr(0, 1) != "{") return "";
  LooseReader reader(LooseReader::Begin::member, {LooseSyntax::Kind::json, {}, {}});
  while (!reader.over()) {
    const size_t num_bytes = reader.advance(text, MoreToCome::no);
    if (num_bytes == 0) break;
    text.remove_prefix(num_bytes);
  }
  return reader.over() && reader.is_sound() && text.empty() ? reader.take_json() : std::string();
}

// Returns arguments as an object, whether given as an object or as a string that contains one; empty if they
// are something else.
std::string arguments_object(const std::string& json) {
  if (json == "null" || json == "\"\"") return "{}";
  if (!json.empty() && json.front() == '{') return json;
  return json.empty() || json.front() != '"' ? std::string() : object_of(decoded(json));
}

bool is_quote(char byte) {
  return byte == '"' || byte == '\'';
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
  object_ = {};
  call_.held_arguments.reset();
  call_.name.clear();
  call_.id.clear();
  call_.begun = false;
  call_.reader.reset();
  call_.streaming = false;
  build_call_marks();
}

bool ResponseParser::step_object() {
  if (call_.reader) return step_object_reader();
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
      } else if (is_quote(byte)) {  // the comma is missing
        object_.part = Part::key;
      } else {
        end_broken_object();
      }
      break;
  }
  return true;
}

// Continues a key or a value.
bool ResponseParser::step_object_reader() {
  if (!call_.reader->in_string()) {
    const Set::Found found = find(marks_.call);
    if (found.wait) return false;
    if (found.size > 0) call_.reader->close_all();
  }
  const size_t num_bytes = call_.reader->advance(pending(), input_.more);
  if (num_bytes == 0 && !call_.reader->over()) return false;
  consume(num_bytes);
  if (call_.streaming) emit_read();
  if (call_.reader->is_too_deep()) {
    if (call_.begun) {
      break_off();
    } else {
      fail();
    }
  } else if (call_.reader->over()) {
    end_object_part();
  }
  return true;
}

void ResponseParser::object_key(char byte) {
  if (is_quote(byte)) {
    call_.reader.emplace(LooseReader::Begin::key, json_syntax());
  } else if (byte == '}') {
    consume(1);
    end_object();
  } else if (byte == ',' || is_space(byte)) {
    consume(1);
  } else {
    end_broken_object();
  }
}

// Begins a value. Arguments are emitted as they arrive if the name is known.
void ResponseParser::object_value(char byte) {
  if (is_space(byte)) {
    consume(1);
  } else if (object_.role == Role::arguments && !call_.name.empty() && byte == '{' && !call_.begun) {
    begin_call();
    consume(1);
    read_arguments(LooseSyntax::Kind::json);
    emit_read();
  } else {
    call_.reader.emplace(LooseReader::Begin::member, json_syntax());
  }
}

void ResponseParser::end_object_part() {
  if (object_.part == Part::key) {
    end_object_key();
  } else {
    end_object_value();
  }
}

void ResponseParser::end_object_key() {
  const std::string key = decoded(call_.reader->take_json());
  call_.reader.reset();
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

void ResponseParser::end_object_value() {
  object_.part = Part::after_value;
  const std::string value = call_.streaming ? std::string() : call_.reader->take_json();
  const bool fits = call_.streaming || take_object_value(value);
  call_.reader.reset();
  call_.streaming = false;
  if (!fits) {
    fail();
    return;
  }
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

// Uses a value that was not streamed; returns false if the object is not a call.
bool ResponseParser::take_object_value(const std::string& value) {
  if (object_.role == Role::id && value != "null") {
    call_.id = value.substr(0, 1) == "\"" ? decoded(value) : value;
  }
  if (call_.begun) return true;
  if (object_.role == Role::arguments) {
    call_.held_arguments = arguments_object(value);
    return !call_.held_arguments->empty();
  }
  if (object_.role != Role::name) return true;
  call_.name = decoded(value);
  const bool unknown = section_.form->bare && !tools_.tools().empty() && tools_.find(call_.name) == nullptr;
  return !call_.name.empty() && !unknown;
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
