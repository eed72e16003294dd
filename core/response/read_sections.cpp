// Parses the parts of an answer in which tool calls may begin.
#include <algorithm>

#include "core/base/ascii.h"
#include "core/base/white_space.h"
#include "core/response/response_parser.h"

namespace quire {
namespace {

constexpr std::string_view kBetweenObjects = ",;[]";
constexpr std::string_view kAfterObject = "}";  // closed once too often

bool contains(const Marks& marks, std::string_view mark) {
  return std::find(marks.begin(), marks.end(), mark) != marks.end();
}

}  // namespace

void ResponseParser::begin_section(const Set::Found& found) {
  const std::string_view mark = pending().substr(0, found.size);
  section_.candidates.clear();
  for (const CallForm& form : dialect_->forms) {
    const bool fits =
        found.meaning == Meaning::section ? contains(form.opens, mark) : form.tagged.begin == mark;
    if (fits) section_.candidates.push_back(&form);
  }
  section_.outer = mode_;
  mode_ = Mode::section;
  section_.has_call = false;
  section_.of_message = false;
  section_.form = nullptr;
  build_section_marks();
  if (found.meaning == Meaning::call) return;  // the mark also begins the call
  const bool is_first_byte = section_.candidates[0]->bare && mark.back() == '{';
  consume(found.size - (is_first_byte ? 1 : 0));
}

void ResponseParser::build_section_marks() {
  marks_.section = {};
  for (const CallForm* form : section_.candidates) {
    marks_.section.add(form->tagged.begin, Meaning::call);
    marks_.section.add_all(form->closes, Meaning::section_closes);
    if (!form->bare) marks_.section.add_all(form->opens, Meaning::separator);
    marks_.section.add_all(form->separators, Meaning::separator);
    if (form->arguments != ArgumentSyntax::parameters) {
      marks_.section.add_all(form->tagged.ends, Meaning::separator);
    }
  }
}

bool ResponseParser::step_section() {
  const Set::Found found = find(marks_.section);
  if (found.wait) return false;
  if (found.size > 0) {
    const std::string mark(pending().substr(0, found.size));
    consume(found.size);
    if (found.meaning == Meaning::call) {
      for (const CallForm* form : section_.candidates) {
        if (form->tagged.begin == mark) begin_name(*form);
      }
    } else if (found.meaning == Meaning::section_closes && !section_.has_call &&
               section_.candidates[0]->bare) {
      fail();  // brackets without a call
    } else if (found.meaning == Meaning::section_closes) {
      emit_raw(Kind::markup);
      mode_ = Mode::text;
      message_.text_begun = false;
    }
    return true;
  }
  for (const CallForm* form : section_.candidates) {
    if (begin_call_in(*form)) return true;
  }
  const auto has_body = [&](CallBody body) {
    return std::any_of(section_.candidates.begin(), section_.candidates.end(),
                       [body](const CallForm* form) { return form->body == body; });
  };
  const auto is_one_of = [&](std::string_view bytes) {
    return bytes.find(front()) != std::string_view::npos;
  };
  const bool has_objects = has_body(CallBody::object);
  const bool is_between = (has_objects || has_body(CallBody::python)) && is_one_of(kBetweenObjects);
  if (is_space(front()) || is_between || (has_objects && section_.has_call && is_one_of(kAfterObject))) {
    consume(1);
  } else {
    leave_section();
  }
  return true;
}

// Returns whether the next byte begins a call, and begins it.
bool ResponseParser::begin_call_in(const CallForm& form) {
  const char byte = front();
  const bool letter = is_ascii_letter(byte) || byte == '_';
  if (form.body == CallBody::object) {
    if (byte != '{') return false;
    section_.form = &form;
    consume(1);
    begin_object();
    return true;
  }
  if (!letter || !form.tagged.begin.empty()) return false;
  begin_name(form);
  return true;
}

void ResponseParser::leave_section() {
  if (!section_.has_call) {
    fail();
    return;
  }
  if (!input_.raw.empty()) emit_raw(Kind::markup);
  mode_ = Mode::text;
  message_.text_begun = false;
}

void ResponseParser::fail() {
  call_.reader.reset();
  call_.streaming = false;
  if (section_.has_call) {
    emit_raw(Kind::text);
    mode_ = Mode::text;
  } else {
    mode_ = section_.outer;
    if (!input_.raw.empty()) emit_raw(mode_ == Mode::reasoning ? Kind::reasoning : Kind::text);
  }
  (mode_ == Mode::reasoning ? message_.reasoning_begun : message_.text_begun) = true;
}

void ResponseParser::emit_call(Kind kind) {
  ResponseEvent event;
  event.kind = kind;
  event.call_idx = call_.num_begun - 1;
  event.name = call_.name;
  event.id = call_.id;
  event.raw = input_.raw;
  input_.raw.clear();
  events_.push_back(std::move(event));
}

void ResponseParser::begin_call() {
  ++call_.num_begun;
  emit_call(Kind::call_begin);
  call_.begun = true;
  call_.has_arguments = false;
  call_.cut_character.clear();
  section_.has_call = true;
  message_.announced.clear();
}

void ResponseParser::end_call() {
  emit_call(Kind::call_end);
  call_.begun = false;
  call_.reader.reset();
  call_.streaming = false;
  mode_ = section_.of_message ? Mode::nothing : Mode::section;
}

void ResponseParser::break_off() {
  if (!input_.raw.empty()) emit_raw(Kind::markup);
  call_.begun = false;
  call_.reader.reset();
  call_.streaming = false;
  mode_ = section_.of_message ? Mode::nothing : Mode::text;
}

}  // namespace quire
