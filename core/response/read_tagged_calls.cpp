// Parses tool calls whose name and arguments are between marks, and Python calls.
#include <algorithm>

#include "core/base/white_space.h"
#include "core/response/response_parser.h"

namespace quire {
namespace {

constexpr size_t kMaxNameBytes = 256;

bool is_name_byte(char byte) {
  return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
         std::string_view("_-.:/").find(byte) != std::string_view::npos ||
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

}  // namespace quire
