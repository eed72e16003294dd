// Parses the arguments of tool calls that have a mark for each argument.
#include <algorithm>

#include "core/base/white_space.h"
#include "core/response/elements.h"
#include "core/response/response_parser.h"

namespace quire {
namespace {

constexpr std::string_view kVerbatim = "<![CDATA[";
constexpr std::string_view kVerbatimEnd = "]]>";

}  // namespace

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
