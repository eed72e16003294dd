// Calls: JSON objects, names and arguments between marks, and calls in Python.
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

// The text of a JSON string; as it stands where it is none.
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

// Arguments that came as a whole: an object, or a string that has one in it.
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
  part_ = Part::key;
  capture_.clear();
  held_arguments_.reset();
  name_.clear();
  id_.clear();
  num_keys_ = 0;
  call_begun_ = false;
  streaming_ = false;
}

bool ResponseParser::step_object() {
  const char byte = front();
  switch (part_) {
    case Part::key:
      object_key(byte);
      break;
    case Part::colon:
      if (byte == ':') part_ = Part::value;
      if (byte == ':' || is_space(byte)) {
        consume(1);
      } else {
        break_object();
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
        if (byte == ',') part_ = Part::key;
      } else {
        break_object();
      }
      break;
  }
  return true;
}

void ResponseParser::object_key(char byte) {
  if (!capture_.empty()) {
    consume(1);
    if (span_.take(byte, capture_) == JsonSpan::Step::last) end_object_key();
  } else if (byte == '"') {
    consume(1);
    span_ = {};
    span_.take(byte, capture_);
  } else if (byte == '}') {
    consume(1);
    end_object();
  } else if (byte == ',' || is_space(byte)) {
    consume(1);
  } else {
    break_object();
  }
}

void ResponseParser::end_object_key() {
  const std::string key = decoded(capture_);
  capture_.clear();
  part_ = Part::colon;
  role_ = Role::other;
  const ObjectSyntax& object = form_->object;
  if (object.name_is_key) {
    name_ = key;
    role_ = Role::arguments;
    return;
  }
  if (key == object.name || is_any_of(key, {"name", "tool_name"})) role_ = Role::name;
  if (key == object.arguments || is_any_of(key, {"arguments", "parameters"})) role_ = Role::arguments;
  if ((!object.id.empty() && key == object.id) || is_any_of(key, {"id", "tool_call_id"})) role_ = Role::id;
  const bool may_be_call = role_ != Role::other || key == "type";
  if (num_keys_++ == 0 && form_->bare && !may_be_call) fail();
}

void ResponseParser::object_value(char byte) {
  if (capture_.empty() && !streaming_) {
    if (is_space(byte)) {
      consume(1);
      return;
    }
    span_ = {};
    streaming_ = role_ == Role::arguments && !name_.empty() && byte == '{' && !call_begun_;
    if (streaming_) begin_call();
  }
  std::string out;
  const JsonSpan::Step step = span_.take(byte, out);
  if (step == JsonSpan::Step::refused) {
    if (streaming_ || capture_.empty()) {
      break_object();
    } else {
      end_object_value();
    }
    return;
  }
  consume(1);
  if (streaming_) {
    emit(Kind::arguments, std::move(out));
  } else {
    capture_ += out;
  }
  if (step == JsonSpan::Step::last) end_object_value();
}

void ResponseParser::end_object_value() {
  part_ = Part::after_value;
  const std::string value = std::move(capture_);
  capture_.clear();
  if (role_ == Role::id) id_ = decoded(value);
  if (role_ == Role::arguments && !streaming_) held_arguments_ = unwrapped(value);
  if (role_ == Role::name && !call_begun_) {
    name_ = value.front() == '"' ? decoded(value) : "";
    const bool unknown = form_->bare && !tools_.tools().empty() && tools_.find(name_) == nullptr;
    if (name_.empty() || unknown) {
      fail();
      return;
    }
  }
  streaming_ = false;
  if (!call_begun_ && held_arguments_ && !name_.empty()) {
    begin_call();
    emit(Kind::arguments, *held_arguments_);
  }
  if (!form_->object.name_is_key) return;
  end_call();
  name_.clear();
  held_arguments_.reset();
  mode_ = Mode::object;
}

void ResponseParser::end_object() {
  if (call_begun_) {
    end_call();
  } else if (!name_.empty() && !form_->bare && !form_->object.name_is_key) {
    begin_call();
    emit(Kind::arguments, "{}");
    end_call();
  } else if (call_in_section_) {
    emit_raw(Kind::markup);
    mode_ = Mode::section;
  } else {
    fail();
  }
}

// The next byte can be none of the object's.
void ResponseParser::break_object() {
  if (call_begun_) {
    end_call();
  } else {
    fail();
  }
}

void ResponseParser::begin_name(const CallForm& form) {
  form_ = &form;
  mode_ = form.tagged.id_end.empty() ? Mode::name : Mode::id;
  name_.clear();
  id_.clear();
  call_begun_ = false;
  name_marks_ = {};
  const TaggedSyntax& tagged = form.tagged;
  if (form.body == CallBody::python) {
    name_marks_.add("(", Meaning::body);
    return;
  }
  name_marks_.add(tagged.id_begin, Meaning::id);
  name_marks_.add_all(tagged.body_begins, Meaning::body);
  name_marks_.add(tagged.parameter.begin, Meaning::stop);
  name_marks_.add_all(tagged.ends, Meaning::stop);
  name_marks_.add_all(form.closes, Meaning::stop);
  if (form.arguments == ArgumentSyntax::json) name_marks_.add("{", Meaning::stop);
}

bool ResponseParser::step_name() {
  const Set::Found found = find(name_marks_);
  if (found.wait) return false;
  if (found.size > 0) {
    end_name(found);
  } else if (!take_name_byte()) {
    fail();
  }
  return true;
}

// A name may have white space around it.
bool ResponseParser::take_name_byte() {
  const char byte = front();
  const bool ended = !name_.empty() && is_space(name_.back());
  if (!is_space(byte) && (ended || !is_name_byte(byte) || name_.size() == kMaxNameBytes)) return false;
  if (!is_space(byte) || !name_.empty()) {
    if (!ended) name_ += byte;
  }
  consume(1);
  return true;
}

void ResponseParser::end_name(const Set::Found& found) {
  const TaggedSyntax& tagged = form_->tagged;
  std::string_view name = trimmed(name_);
  const std::string whole(name);
  if (!tagged.name_prefix.empty() && name.substr(0, tagged.name_prefix.size()) == tagged.name_prefix) {
    name.remove_prefix(tagged.name_prefix.size());
  }
  if (tagged.index_sign != '\0' && name.rfind(tagged.index_sign) != std::string_view::npos) {
    name = name.substr(0, name.rfind(tagged.index_sign));
    id_ = whole;
  }
  name_ = std::string(name);
  const bool unknown = form_->bare && !tools_.tools().empty() && tools_.find(name_) == nullptr;
  if (name_.empty() || unknown) {
    fail();
    return;
  }
  if (found.meaning != Meaning::stop) consume(found.size);
  if (found.meaning == Meaning::id) {
    mode_ = Mode::id;
    id_.clear();
  } else {
    begin_arguments();
  }
}

bool ResponseParser::step_id() {
  Set set;
  const bool is_first = name_.empty();
  if (is_first) {
    set.add(form_->tagged.id_end, Meaning::id);
  } else {
    set.add_all(form_->tagged.body_begins, Meaning::body);
  }
  const Set::Found found = find(set);
  if (found.wait) return false;
  if (found.size == 0) id_ += front();
  consume(std::max<size_t>(found.size, 1));
  if (found.size == 0) return true;
  id_ = std::string(trimmed(id_));
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
  span_ = {};
  streaming_ = false;
  num_arguments_ = 0;
  call_marks_ = {};
  call_marks_.add(parameter().begin, Meaning::parameter);
  call_marks_.add_all(form_->tagged.ends, Meaning::stop);
  call_marks_.add_all(form_->closes, Meaning::section_closes);
  const bool loose = form_->arguments == ArgumentSyntax::loose || form_->body == CallBody::python;
  if (loose) reader_.emplace(LooseReader::Begin::arguments, parameter().begin);
}

bool ResponseParser::step_arguments() {
  if (reader_) return step_loose();
  return form_->arguments == ArgumentSyntax::json ? step_json() : step_parameters();
}

bool ResponseParser::step_json() {
  if (!streaming_) {
    const Set::Found found = find(call_marks_);
    if (found.wait) return false;
    if (found.size > 0) {
      end_tagged_call(found.meaning == Meaning::stop ? found.size : 0);
    } else if (is_space(front())) {
      consume(1);
    } else if (front() == '{') {
      streaming_ = true;
    } else {
      end_tagged_call(0);
    }
    return true;
  }
  std::string out;
  const JsonSpan::Step step = span_.take(front(), out);
  if (step != JsonSpan::Step::refused) {
    consume(1);
    emit(Kind::arguments, std::move(out));
  }
  if (step != JsonSpan::Step::taken) end_tagged_call(0);
  return true;
}

bool ResponseParser::step_loose() {
  const size_t num_bytes = reader_->advance(pending(), more_);
  if (num_bytes == 0) return false;
  consume(num_bytes);
  if (std::string json = reader_->take_json(); !json.empty()) emit(Kind::arguments, std::move(json));
  if (reader_->over()) end_call();
  return true;
}

bool ResponseParser::step_parameters() {
  const Set::Found found = find(call_marks_);
  if (found.wait) return false;
  if (found.size == 0) {
    consume(1);
  } else if (found.meaning == Meaning::parameter) {
    consume(found.size);
    key_.clear();
    hint_.clear();
    mode_ = Mode::key;
  } else {
    end_tagged_call(found.meaning == Meaning::stop ? found.size : 0);
  }
  return true;
}

void ResponseParser::end_tagged_call(size_t num_bytes) {
  if (form_->arguments == ArgumentSyntax::parameters) {
    emit(Kind::arguments, num_arguments_ == 0 ? "{}" : "}");
  } else if (!streaming_) {
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
  if (found.size == 0) key_ += front();
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
  if (found.size == 0) hint_ += front();
  consume(std::max<size_t>(found.size, 1));
  if (found.size > 0) begin_value();
  return true;
}

void ResponseParser::begin_value() {
  const ParameterSyntax& syntax = parameter();
  mode_ = Mode::value;
  key_ = std::string(trimmed(key_));
  plain_ = {};
  plain_.types = types_of(tools_.argument_schema(name_, key_));
  plain_.python = syntax.python;
  const std::string_view hint = trimmed(hint_);
  if (!syntax.string_hint.empty() && !hint.empty()) {
    plain_.is_json = hint != syntax.string_hint;
    if (!plain_.is_json) plain_.types = {ValueTypes::kString, true};
  }
  streaming_ = plain_.types.only_text() && !plain_.is_json;
  may_be_json_ = plain_.is_json || (plain_.types.known && !plain_.types.has(ValueTypes::kString));
  in_json_string_ = false;
  span_ = {};
  value_begun_ = false;
  on_lines_ = false;
  is_verbatim_ = false;
  capture_.clear();
  std::string end = "\n" + std::string(syntax.value_end);
  if (const size_t pos = end.find(kKeyHere); pos != std::string::npos) end.replace(pos, 1, key_);
  value_end_line_ = std::make_shared<const std::string>(std::move(end));
  build_value_marks();
  if (streaming_) emit(Kind::arguments, key_json() + '"');
}

void ResponseParser::build_value_marks() {
  value_marks_ = {};
  if (is_verbatim_) {
    value_marks_.add(kVerbatimEnd, Meaning::verbatim_end);
    return;
  }
  const std::string_view end_line = *value_end_line_;
  value_marks_.add(end_line.substr(1), Meaning::value_end);
  if (on_lines_) value_marks_.add(end_line, Meaning::value_end);
  if (!value_begun_) value_marks_.add(kVerbatim, Meaning::verbatim);
}

bool ResponseParser::step_value() {
  if (!value_begun_ && parameter().lines && front() == '\n') {
    consume(1);
    value_begun_ = on_lines_ = true;
    build_value_marks();
    return true;
  }
  const Set::Found found = in_json_string_ ? Set::Found() : find(value_marks_);
  if (found.wait) return false;
  if (found.size == 0) {
    watch_json(front());
    add_to_value(pending().substr(0, 1));
    consume(1);
    if (!value_begun_) {
      value_begun_ = true;
      build_value_marks();
    }
    return true;
  }
  consume(found.size);
  if (found.meaning == Meaning::value_end) {
    end_value();
    return true;
  }
  is_verbatim_ = found.meaning == Meaning::verbatim;
  value_begun_ = true;
  build_value_marks();
  return true;
}

// Where a value can only be JSON, a mark inside of its strings is part of them.
void ResponseParser::watch_json(char byte) {
  if (!may_be_json_) return;
  std::string ignored;
  const bool space = capture_.empty() && is_space(byte);
  const bool broken = byte == '\n' && span_.in_string();
  if (broken || (!space && span_.take(byte, ignored) == JsonSpan::Step::refused)) may_be_json_ = false;
  in_json_string_ = may_be_json_ && span_.in_string();
}

void ResponseParser::add_to_value(std::string_view bytes) {
  if (!streaming_) {
    capture_ += bytes;
    return;
  }
  std::string text;
  append_json_text(text, bytes);
  emit(Kind::arguments, std::move(text));
}

std::string ResponseParser::key_json() const {
  std::string json = num_arguments_ == 0 ? "{\"" : ", \"";
  append_json_text(json, key_);
  return json += "\": ";
}

void ResponseParser::end_value() {
  if (streaming_) {
    emit(Kind::arguments, "\"");
  } else {
    std::string json = key_json();
    if (parameter().elements) {
      json += json_of_elements(capture_, parameter().begin, tools_.argument_schema(name_, key_));
    } else {
      json += json_of_plain(capture_, plain_);
    }
    emit(Kind::arguments, std::move(json));
  }
  capture_.clear();
  ++num_arguments_;
  mode_ = Mode::arguments;
}

}  // namespace quire
