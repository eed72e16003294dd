// Parses tool calls: JSON objects, names and arguments between marks, and Python calls.
#include <algorithm>

#include "core/base/error.h"
#include "core/response/elements.h"
#include "core/response/response_parser.h"

namespace quire {
namespace {

constexpr std::string_view kSpace = " \n\t\r";
constexpr std::string_view kVerbatim = "<![CDATA[";
constexpr std::string_view kVerbatimEnd = "]]>";
constexpr size_t kMaxNameBytes = 256;

bool is_space(char byte) {
  return kSpace.find(byte) != std::string_view::npos;
}

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

bool is_name_byte(char byte) {
  return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
         std::string_view("_-.:/").find(byte) != std::string_view::npos ||
         static_cast<unsigned char>(byte) >= 0x80;
}

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

void ResponseParser::begin_name(const CallForm& form) {
  section_.form = &form;
  mode_ = form.tagged.id_end.empty() ? Mode::name : Mode::id;
  call_.name.clear();
  call_.id.clear();
  call_.begun = false;
  marks_.name = {};
  const TaggedSyntax& tagged = form.tagged;
  if (form.body == CallBody::python) {
    marks_.name.add("(", Meaning::body);
    return;
  }
  marks_.name.add(tagged.id_begin, Meaning::id);
  marks_.name.add_all(tagged.body_begins, Meaning::body);
  marks_.name.add(tagged.parameter.begin, Meaning::stop);
  marks_.name.add_all(tagged.ends, Meaning::stop);
  marks_.name.add_all(form.closes, Meaning::stop);
  if (form.arguments == ArgumentSyntax::json) marks_.name.add("{", Meaning::stop);
}

bool ResponseParser::step_name() {
  const Set::Found found = find(marks_.name);
  if (found.wait) return false;
  if (found.size > 0) {
    end_name(found);
  } else if (!take_name_byte()) {
    fail();
  }
  return true;
}

// Reads one byte of a name, which may have white space around it.
bool ResponseParser::take_name_byte() {
  const char byte = front();
  const bool ended = !call_.name.empty() && is_space(call_.name.back());
  if (!is_space(byte) && (ended || !is_name_byte(byte) || call_.name.size() == kMaxNameBytes)) return false;
  if (!is_space(byte) || !call_.name.empty()) {
    if (!ended) call_.name += byte;
  }
  consume(1);
  return true;
}

void ResponseParser::end_name(const Set::Found& found) {
  const TaggedSyntax& tagged = section_.form->tagged;
  std::string_view name = trimmed(call_.name);
  const std::string whole(name);
  if (!tagged.name_prefix.empty() && name.substr(0, tagged.name_prefix.size()) == tagged.name_prefix) {
    name.remove_prefix(tagged.name_prefix.size());
  }
  if (tagged.index_sign != '\0' && name.rfind(tagged.index_sign) != std::string_view::npos) {
    name = name.substr(0, name.rfind(tagged.index_sign));
    call_.id = whole;
  }
  call_.name = std::string(name);
  const bool unknown = section_.form->bare && !tools_.tools().empty() && tools_.find(call_.name) == nullptr;
  if (call_.name.empty() || unknown) {
    fail();
    return;
  }
  if (found.meaning != Meaning::stop) consume(found.size);
  if (found.meaning == Meaning::id) {
    mode_ = Mode::id;
    call_.id.clear();
  } else {
    begin_arguments();
  }
}

bool ResponseParser::step_id() {
  Set set;
  const bool is_first = call_.name.empty();
  if (is_first) {
    set.add(section_.form->tagged.id_end, Meaning::id);
  } else {
    set.add_all(section_.form->tagged.body_begins, Meaning::body);
  }
  const Set::Found found = find(set);
  if (found.wait) return false;
  if (found.size == 0) call_.id += front();
  consume(std::max<size_t>(found.size, 1));
  if (found.size == 0) return true;
  call_.id = std::string(trimmed(call_.id));
  if (is_first) {
    mode_ = Mode::name;
  } else {
    begin_arguments();
  }
  return true;
}

void ResponseParser::begin_arguments() {
  begin_call();
  mode_ = Mode::arguments;
  object_.span = {};
  object_.streaming = false;
  call_.num_arguments = 0;
  marks_.call = {};
  marks_.call.add(parameter().begin, Meaning::parameter);
  marks_.call.add_all(section_.form->tagged.ends, Meaning::stop);
  marks_.call.add_all(section_.form->closes, Meaning::section_closes);
  const bool loose =
      section_.form->arguments == ArgumentSyntax::loose || section_.form->body == CallBody::python;
  if (loose) value_.reader.emplace(LooseReader::Begin::arguments, parameter().begin);
}

bool ResponseParser::step_arguments() {
  if (value_.reader) return step_loose();
  return section_.form->arguments == ArgumentSyntax::json ? step_json() : step_parameters();
}

bool ResponseParser::step_json() {
  if (!object_.streaming) {
    const Set::Found found = find(marks_.call);
    if (found.wait) return false;
    if (found.size > 0) {
      end_tagged_call(found.meaning == Meaning::stop ? found.size : 0);
    } else if (is_space(front())) {
      consume(1);
    } else if (front() == '{') {
      object_.streaming = true;
    } else {
      end_tagged_call(0);
    }
    return true;
  }
  std::string out;
  const JsonSpan::Step step = object_.span.take(front(), out);
  if (step != JsonSpan::Step::refused) {
    consume(1);
    emit(Kind::arguments, std::move(out));
  }
  if (step != JsonSpan::Step::taken) end_tagged_call(0);
  return true;
}

bool ResponseParser::step_loose() {
  const size_t num_bytes = value_.reader->advance(pending(), input_.more);
  if (num_bytes == 0) return false;
  consume(num_bytes);
  if (std::string json = value_.reader->take_json(); !json.empty()) emit(Kind::arguments, std::move(json));
  if (value_.reader->over()) end_call();
  return true;
}

bool ResponseParser::step_parameters() {
  const Set::Found found = find(marks_.call);
  if (found.wait) return false;
  if (found.size == 0) {
    consume(1);
  } else if (found.meaning == Meaning::parameter) {
    consume(found.size);
    value_.key.clear();
    value_.hint.clear();
    mode_ = Mode::key;
  } else {
    end_tagged_call(found.meaning == Meaning::stop ? found.size : 0);
  }
  return true;
}

void ResponseParser::end_tagged_call(size_t num_bytes) {
  if (section_.form->arguments == ArgumentSyntax::parameters) {
    emit(Kind::arguments, call_.num_arguments == 0 ? "{}" : "}");
  } else if (!object_.streaming) {
    emit(Kind::arguments, "{}");
  }
  consume(num_bytes);
  end_call();
}

bool ResponseParser::step_key() {
  Set set;
  set.add(parameter().key_end, Meaning::key_end);
  set.add(parameter().value_begin, Meaning::value_begin);
  const Set::Found found = find(set);
  if (found.wait) return false;
  if (found.size == 0) value_.key += front();
  consume(std::max<size_t>(found.size, 1));
  if (found.meaning == Meaning::key_end && !parameter().value_begin.empty()) {
    mode_ = Mode::hint;
  } else if (found.size > 0) {
    begin_value();
  }
  return true;
}

bool ResponseParser::step_hint() {
  Set set;
  set.add(parameter().value_begin, Meaning::value_begin);
  const Set::Found found = find(set);
  if (found.wait) return false;
  if (found.size == 0) value_.hint += front();
  consume(std::max<size_t>(found.size, 1));
  if (found.size > 0) begin_value();
  return true;
}

void ResponseParser::begin_value() {
  const ParameterSyntax& syntax = parameter();
  mode_ = Mode::value;
  value_.key = std::string(trimmed(value_.key));
  value_.plain = {};
  value_.plain.types = types_of(tools_.argument_schema(call_.name, value_.key));
  value_.plain.python = syntax.python;
  const std::string_view hint = trimmed(value_.hint);
  if (!syntax.string_hint.empty() && !hint.empty()) {
    value_.plain.is_json = hint != syntax.string_hint;
    if (!value_.plain.is_json) value_.plain.types = {ValueTypes::kString, true};
  }
  object_.streaming = value_.plain.types.only_text() && !value_.plain.is_json;
  value_.may_be_json =
      value_.plain.is_json || (value_.plain.types.known && !value_.plain.types.has(ValueTypes::kString));
  value_.in_json_string = false;
  object_.span = {};
  value_.begun = false;
  value_.on_lines = false;
  value_.is_verbatim = false;
  object_.capture.clear();
  std::string end = "\n" + std::string(syntax.value_end);
  if (const size_t pos = end.find(kKeyPlaceholder); pos != std::string::npos) end.replace(pos, 1, value_.key);
  marks_.end_line = std::make_shared<const std::string>(std::move(end));
  build_value_marks();
  if (object_.streaming) emit(Kind::arguments, key_json() + '"');
}

void ResponseParser::build_value_marks() {
  marks_.value = {};
  if (value_.is_verbatim) {
    marks_.value.add(kVerbatimEnd, Meaning::verbatim_end);
    return;
  }
  const std::string_view end_line = *marks_.end_line;
  marks_.value.add(end_line.substr(1), Meaning::value_end);
  if (value_.on_lines) marks_.value.add(end_line, Meaning::value_end);
  if (!value_.begun) marks_.value.add(kVerbatim, Meaning::verbatim);
}

bool ResponseParser::step_value() {
  if (!value_.begun && parameter().lines && front() == '\n') {
    consume(1);
    value_.begun = value_.on_lines = true;
    build_value_marks();
    return true;
  }
  const Set::Found found = value_.in_json_string ? Set::Found() : find(marks_.value);
  if (found.wait) return false;
  if (found.size == 0) {
    watch_json(front());
    add_to_value(pending().substr(0, 1));
    consume(1);
    if (!value_.begun) {
      value_.begun = true;
      build_value_marks();
    }
    return true;
  }
  consume(found.size);
  if (found.meaning == Meaning::value_end) {
    end_value();
    return true;
  }
  value_.is_verbatim = found.meaning == Meaning::verbatim;
  value_.begun = true;
  build_value_marks();
  return true;
}

// Follows a value that can only be JSON: marks inside its strings are part of the strings.
void ResponseParser::watch_json(char byte) {
  if (!value_.may_be_json) return;
  std::string ignored;
  const bool space = object_.capture.empty() && is_space(byte);
  const bool broken = byte == '\n' && object_.span.in_string();
  if (broken || (!space && object_.span.take(byte, ignored) == JsonSpan::Step::refused))
    value_.may_be_json = false;
  value_.in_json_string = value_.may_be_json && object_.span.in_string();
}

void ResponseParser::add_to_value(std::string_view bytes) {
  if (!object_.streaming) {
    object_.capture += bytes;
    return;
  }
  std::string text;
  append_json_text(text, bytes);
  emit(Kind::arguments, std::move(text));
}

std::string ResponseParser::key_json() const {
  std::string json = call_.num_arguments == 0 ? "{\"" : ", \"";
  append_json_text(json, value_.key);
  return json += "\": ";
}

void ResponseParser::end_value() {
  if (object_.streaming) {
    emit(Kind::arguments, "\"");
  } else {
    std::string json = key_json();
    if (parameter().elements) {
      json += json_of_elements(object_.capture, parameter().begin,
                               tools_.argument_schema(call_.name, value_.key));
    } else {
      json += json_of_plain(object_.capture, value_.plain);
    }
    emit(Kind::arguments, std::move(json));
  }
  object_.capture.clear();
  ++call_.num_arguments;
  mode_ = Mode::arguments;
}

}  // namespace quire
