// Parses tool calls whose name and arguments are between marks, and Python calls.
#include <algorithm>
#include <array>
#include <utility>

#include "core/base/ascii.h"
#include "core/base/white_space.h"
#include "core/response/response_parser.h"

namespace quire {
namespace {

constexpr size_t kMaxNameBytes = 256;

bool is_name_byte(char byte) {
  return is_ascii_letter_or_digit(byte) || std::string_view("_-.:/").find(byte) != std::string_view::npos ||
         static_cast<unsigned char>(byte) >= 0x80;
}

}  // namespace

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

// A call with JSON begins at the bracket of its arguments.
void ResponseParser::begin_arguments() {
  mode_ = Mode::arguments;
  call_.begun = false;
  call_.keys.clear();
  build_call_marks();
  const CallForm& form = *section_.form;
  if (form.body != CallBody::python && form.arguments == ArgumentSyntax::json) return;
  begin_call();
  if (form.body == CallBody::python) read_arguments(LooseSyntax::Kind::python);
  if (form.arguments == ArgumentSyntax::loose) read_arguments(LooseSyntax::Kind::quoted);
}

// The marks of a bare form are brackets, which values have too.
void ResponseParser::build_call_marks() {
  const CallForm& form = *section_.form;
  marks_.call = {};
  section_.ends.clear();
  if (form.arguments == ArgumentSyntax::parameters) marks_.call.add(parameter().begin, Meaning::parameter);
  const auto add = [&](const auto& marks, Meaning meaning) {
    for (const std::string_view mark : marks) {
      if (trimmed(mark).size() < 2) continue;
      marks_.call.add(mark, meaning);
      section_.ends.push_back(mark);
    }
  };
  add(form.tagged.ends, Meaning::stop);
  add(form.closes, Meaning::section_closes);
  if (!form.bare) add(form.opens, Meaning::section);
  add(std::array{form.tagged.begin}, Meaning::call);
  add(form.separators, Meaning::separator);
  add(dialect_->noise, Meaning::noise);
  add(dialect_->messages.body_ends, Meaning::body_end);
  add(dialect_->messages.header_begins, Meaning::header);
}

LooseSyntax ResponseParser::json_syntax() const {
  return {LooseSyntax::Kind::json, {}, section_.ends};
}

void ResponseParser::read_arguments(LooseSyntax::Kind kind) {
  LooseSyntax syntax{kind, {}, section_.ends};
  if (kind == LooseSyntax::Kind::quoted) syntax.quote = parameter().begin;
  call_.reader.emplace(LooseReader::Begin::arguments, std::move(syntax));
  call_.streaming = true;
}

bool ResponseParser::step_arguments() {
  if (call_.reader) return step_reader();
  return section_.form->arguments == ArgumentSyntax::json ? step_json() : step_parameters();
}

// Reads up to the arguments of a call with JSON. If there are none, the call is text.
bool ResponseParser::step_json() {
  const Set::Found found = find(marks_.call);
  if (found.wait) return false;
  if (found.size > 0) {
    begin_call();
    end_tagged_call(found.meaning == Meaning::stop ? found.size : 0);
  } else if (is_space(front())) {
    consume(1);
  } else if (front() == '{') {
    begin_call();
    consume(1);
    read_arguments(LooseSyntax::Kind::json);
    emit_read();
  } else {
    fail();
  }
  return true;
}

void ResponseParser::emit_read() {
  if (std::string json = call_.reader->take_json(); !json.empty()) emit(Kind::arguments, std::move(json));
}

bool ResponseParser::step_reader() {
  if (!call_.reader->in_string()) {
    const Set::Found found = find(marks_.call);
    if (found.wait) return false;
    if (found.size > 0) {
      end_tagged_call(found.meaning == Meaning::stop ? found.size : 0);
      return true;
    }
  }
  const size_t num_bytes = call_.reader->advance(pending(), input_.more);
  if (num_bytes == 0) return false;
  consume(num_bytes);
  emit_read();
  if (call_.reader->is_too_deep()) {
    break_off();
  } else if (call_.reader->over()) {
    end_call();
  }
  return true;
}

bool ResponseParser::step_parameters() {
  const Set::Found found = find(marks_.call);
  if (found.wait) return false;
  if (found.size == 0) {
    consume(1);
  } else if (found.meaning == Meaning::parameter) {
    consume(found.size);
    value_ = {};
    mode_ = Mode::key;
  } else {
    end_tagged_call(found.meaning == Meaning::stop ? found.size : 0);
  }
  return true;
}

void ResponseParser::end_tagged_call(size_t num_bytes) {
  if (call_.reader) {
    call_.reader->close_all();
    emit_read();
  } else if (section_.form->arguments == ArgumentSyntax::parameters) {
    emit(Kind::arguments, call_.keys.empty() ? "{}" : "}");
  } else {
    emit(Kind::arguments, "{}");
  }
  consume(num_bytes);
  end_call();
}

}  // namespace quire
