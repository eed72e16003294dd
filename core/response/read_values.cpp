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
  value_.plain.types = types_of(tools_.argument_schema(call_.name, value_.key));
  value_.plain.python = syntax.python;
  const std::string_view hint = trimmed(value_.hint);
  if (!syntax.string_hint.empty() && !hint.empty()) {
    value_.plain.is_json = hint != syntax.string_hint;
    if (!value_.plain.is_json) value_.plain.types = {ValueTypes::kString, true};
  }
  call_.streaming = value_.plain.types.only_text() && !value_.plain.is_json;
  value_.may_be_json =
      value_.plain.is_json || (value_.plain.types.known && !value_.plain.types.has(ValueTypes::kString));
  std::string end = "\n" + std::string(syntax.value_end);
  if (const size_t pos = end.find(kKeyPlaceholder); pos != std::string::npos) end.replace(pos, 1, value_.key);
  marks_.end_line = std::make_shared<const std::string>(std::move(end));
  if (nests_elements()) {
    marks_.open_element = std::make_shared<const std::string>(std::string(syntax.begin) + value_.key +
                                                              std::string(syntax.key_end));
  }
  build_value_marks();
  if (call_.streaming) emit(Kind::arguments, key_json() + '"');
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
  if (nests_elements()) marks_.value.add(*marks_.open_element, Meaning::parameter);
  if (!value_.begun) marks_.value.add(kVerbatim, Meaning::verbatim);
}

bool ResponseParser::step_value() {
  if (!value_.begun && parameter().lines && front() == '\n') {
    consume(1);
    value_.begun = value_.on_lines = true;
    build_value_marks();
    return true;
  }
  if (value_.may_be_json && value_.span.in_string()) return step_value_byte();
  const Set::Found found = find(marks_.value);
  if (found.wait) return false;
  if (found.size > 0) {
    const Answer closes = closes_value(found);
    if (closes == Answer::wait) return false;
    if (closes == Answer::yes) {
      end_value_at(found);
    } else {
      count_elements(found);
      for (size_t i = 0; i < found.size; ++i) step_value_byte();
    }
    return true;
  }
  size_t num_bytes = 0;
  const Answer breaks = breaks_value(num_bytes);
  if (breaks == Answer::wait) return false;
  if (breaks == Answer::no) return step_value_byte();
  consume(num_bytes);
  end_value();
  return true;
}

bool ResponseParser::step_value_byte() {
  watch_json(front());
  add_to_value(pending().substr(0, 1));
  value_.has_bytes = true;
  consume(1);
  if (!value_.begun) {
    value_.begun = true;
    build_value_marks();
  }
  return true;
}

// Counts the open elements that have the name of the argument.
void ResponseParser::count_elements(const Set::Found& found) {
  if (found.meaning == Meaning::parameter) {
    ++value_.depth;
  } else if (value_.depth > 0) {
    --value_.depth;
  }
}

void ResponseParser::end_value_at(const Set::Found& found) {
  consume(found.size);
  if (found.meaning == Meaning::value_end) {
    end_value();
    return;
  }
  value_.is_verbatim = found.meaning == Meaning::verbatim;
  value_.begun = true;
  build_value_marks();
}

// Follows a value that can only be JSON: marks inside its strings are part of the strings.
void ResponseParser::watch_json(char byte) {
  if (!value_.may_be_json || (value_.capture.empty() && is_space(byte))) return;
  const bool broken = byte == '\n' && value_.span.in_string();
  if (broken || !value_.span.take(byte)) value_.may_be_json = false;
}

void ResponseParser::add_to_value(std::string_view bytes) {
  if (!call_.streaming) {
    value_.capture += bytes;
    return;
  }
  std::string text;
  append_json_text(text, bytes);
  emit(Kind::arguments, std::move(text));
}

std::string ResponseParser::key_json() const {
  std::string json = call_.keys.empty() ? "{\"" : ", \"";
  append_json_text(json, value_.key);
  return json += "\": ";
}

void ResponseParser::end_value() {
  if (call_.streaming) {
    emit(Kind::arguments, "\"");
  } else {
    std::string json = key_json();
    if (parameter().elements) {
      json +=
          json_of_elements(value_.capture, parameter().begin, tools_.argument_schema(call_.name, value_.key));
    } else {
      json += json_of_plain(value_.capture, value_.plain);
    }
    emit(Kind::arguments, std::move(json));
  }
  value_.capture.clear();
  call_.streaming = false;
  call_.keys.push_back(value_.key);
  mode_ = Mode::arguments;
}

}  // namespace quire
