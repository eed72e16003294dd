// Text, reasoning, messages and the sections in which calls stand. Calls themselves: read_calls.cpp.
#include "core/response/response_parser.h"

#include <algorithm>

#include "core/base/utf8.h"

namespace quire {
namespace {

constexpr std::string_view kSpace = " \n\t\r";
constexpr std::string_view kBetweenObjects = ",;[]";

bool is_space(char byte) {
  return kSpace.find(byte) != std::string_view::npos;
}

bool contains(const Marks& marks, std::string_view mark) {
  return std::find(marks.begin(), marks.end(), mark) != marks.end();
}

size_t last_end(std::string_view text, const Marks& marks) {
  size_t end = 0;
  for (const std::string_view mark : marks) {
    const size_t pos = text.rfind(mark);
    if (pos != std::string_view::npos) end = std::max(end, pos + mark.size());
  }
  return end;
}

// The bytes at the end of an event's text that are the beginning of a character.
size_t cut_character(const ResponseEvent& event) {
  const std::string_view text = event.text;
  for (size_t size = 1; size <= 3 && size <= text.size(); ++size) {
    const Utf8Char last = decode_utf8(text, text.size() - size);
    if (!last.incomplete) continue;
    const std::string_view raw = event.raw;
    const bool is_raw =
        raw.size() >= size && raw.substr(raw.size() - size) == text.substr(text.size() - size);
    return is_raw ? size : 0;
  }
  return 0;
}

bool is_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char byte) {
    return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           byte == '_' || byte == '-' || byte == '.' || byte == ':' || byte == '/';
  });
}

}  // namespace

ResponseParser::ResponseParser(const Dialect& dialect, ToolSet tools, ReasoningStart start)
    : dialect_(&dialect), tools_(std::move(tools)), start_(start) {
  build_sets();
  if (start == ReasoningStart::open) {
    mode_ = Mode::reasoning;
  } else if (!dialect.messages.header_begins.empty()) {
    mode_ = Mode::header;
    header_fresh_ = true;
  }
}

void ResponseParser::add_calls(Set& set) const {
  for (const CallForm& form : dialect_->forms) {
    set.add_all(form.opens, Meaning::section);
    set.add(form.tagged.begin, Meaning::call);
  }
}

void ResponseParser::build_sets() {
  const MessageSyntax& messages = dialect_->messages;
  if (start_ != ReasoningStart::off) {
    text_marks_.add_all(dialect_->reasoning.opens, Meaning::reasoning_opens);
    text_marks_.add_all(dialect_->reasoning.closes, Meaning::reasoning_closes);
  }
  add_calls(text_marks_);
  text_marks_.add_all(dialect_->noise, Meaning::noise);
  reasoning_marks_.add_all(dialect_->reasoning.closes, Meaning::reasoning_closes);
  reasoning_marks_.add_all(dialect_->reasoning.opens, Meaning::reasoning_opens);
  if (dialect_->reasoning.calls == CallsInReasoning::end_it) add_calls(reasoning_marks_);
  for (Set* set : {&text_marks_, &reasoning_marks_, &header_marks_, &message_marks_}) {
    set->add_all(messages.header_begins, Meaning::header);
    set->add_all(messages.body_ends, Meaning::body_end);
  }
  header_marks_.add(messages.header_end, Meaning::header_end);
  start_marks_.add_all(messages.header_starts, Meaning::header);
}

void ResponseParser::follow(std::string_view prompt) {
  const MessageSyntax& messages = dialect_->messages;
  if (const size_t begin = last_end(prompt, messages.header_begins); begin > 0) {
    header_fresh_ = false;
    feed(prompt.substr(begin));
    events_.clear();
    raw_.clear();
  } else if (mode_ == Mode::text && start_ != ReasoningStart::off) {
    const size_t open = last_end(prompt, dialect_->reasoning.opens);
    if (open <= last_end(prompt, dialect_->reasoning.closes)) return;
    mode_ = Mode::reasoning;
    reasoning_begun_ = prompt.find_first_not_of(kSpace, open) != std::string_view::npos;
  }
}

void ResponseParser::feed(std::string_view bytes) {
  for (const char byte : bytes) {
    pending_ += byte;
    run();
  }
}

void ResponseParser::run() {
  while (num_read_ < pending_.size() && step()) {
  }
  if (num_read_ == pending_.size()) {
    pending_.clear();
    num_read_ = 0;
  }
}

bool ResponseParser::step() {
  switch (mode_) {
    case Mode::text:
      return step_text();
    case Mode::reasoning:
      return step_reasoning();
    case Mode::header:
      return step_header();
    case Mode::nothing:
      return step_nothing();
    case Mode::section:
      return step_section();
    case Mode::object:
      return step_object();
    case Mode::name:
      return step_name();
    case Mode::id:
      return step_id();
    case Mode::arguments:
      return step_arguments();
    case Mode::key:
      return step_key();
    case Mode::hint:
      return step_hint();
    case Mode::value:
      return step_value();
  }
  return false;
}

// What ends reasoning, a value or a call, and what stands between messages: nothing else that begins so is
// likely to stand there.
bool ResponseParser::ends_in_closing_mark() const {
  const auto is_cut = [&](const Set& set, std::initializer_list<Meaning> meanings) {
    return std::any_of(meanings.begin(), meanings.end(),
                       [&](Meaning meaning) { return set.is_cut(pending(), meaning); });
  };
  if (pending().empty()) return false;
  switch (mode_) {
    case Mode::text:
      return between_messages_ && is_cut(text_marks_, {Meaning::header});
    case Mode::reasoning:
      return is_cut(reasoning_marks_, {Meaning::reasoning_closes, Meaning::body_end});
    case Mode::section:
      return call_in_section_ && is_cut(section_marks_, {Meaning::section_closes, Meaning::separator});
    case Mode::arguments:
      return !reader_ && is_cut(call_marks_, {Meaning::stop, Meaning::section_closes});
    case Mode::value:
      return is_cut(value_marks_, {Meaning::value_end, Meaning::verbatim_end});
    default:
      return false;
  }
}

void ResponseParser::finish() {
  if (ends_in_closing_mark()) {
    const bool in_value = mode_ == Mode::value && !streaming_;
    consume(pending().size());
    if (!in_value) emit_raw(Kind::markup);
  }
  more_ = MoreToCome::no;
  run();
  finish_held();
}

// A call whose name is known has begun, even where its arguments have not.
void ResponseParser::finish_name() {
  const bool in_object = mode_ == Mode::object || (mode_ == Mode::id && !name_.empty());
  const bool is_certain = form_ != nullptr && (!form_->bare || tools_.find(name_) != nullptr);
  if (call_begun_) return;
  if (in_object && is_certain && !name_.empty()) {
    begin_call();
  } else if (!announced_.empty() && (mode_ == Mode::section || mode_ == Mode::name)) {
    name_ = announced_;
    begin_call();
  }
}

void ResponseParser::finish_held() {
  finish_name();
  if (mode_ == Mode::arguments && reader_) {
    reader_->finish();
    if (std::string json = reader_->take_json(); !json.empty()) emit(Kind::arguments, std::move(json));
  } else if (mode_ == Mode::value && !streaming_) {
    emit(Kind::arguments, key_json());
  }
  if (raw_.empty()) return;
  const bool is_bare = form_ != nullptr && form_->bare && !call_begun_;
  const bool is_text = (mode_ == Mode::text && text_begun_) ||
                       (mode_ == Mode::section && !call_in_section_) ||
                       (is_bare && (mode_ == Mode::object || mode_ == Mode::name));
  if (mode_ == Mode::reasoning && reasoning_begun_) {
    emit_raw(Kind::reasoning);
  } else {
    emit_raw(is_text ? Kind::text : Kind::markup);
  }
}

std::vector<ResponseEvent> ResponseParser::take() {
  std::vector<ResponseEvent> taken;
  taken.swap(events_);
  const size_t num_held = taken.empty() || more_ == MoreToCome::no ? 0 : cut_character(taken.back());
  if (num_held == 0) return taken;
  ResponseEvent& last = taken.back();
  events_.push_back(last);
  events_[0].text = last.text.substr(last.text.size() - num_held);
  events_[0].raw = events_[0].text;
  last.text.resize(last.text.size() - num_held);
  last.raw.resize(last.raw.size() - num_held);
  if (last.raw.empty()) taken.pop_back();
  return taken;
}

void ResponseParser::consume(size_t num_bytes) {
  raw_ += pending().substr(0, num_bytes);
  num_read_ += num_bytes;
}

void ResponseParser::emit(Kind kind, std::string text) {
  const bool joins = !events_.empty() && events_.back().kind == kind &&
                     (kind != Kind::arguments || events_.back().call_idx + 1 == num_calls_);
  if (kind == Kind::markup) text.clear();
  if (joins) {
    events_.back().text += text;
    events_.back().raw += raw_;
  } else {
    ResponseEvent event;
    event.kind = kind;
    event.text = std::move(text);
    event.raw = raw_;
    if (kind == Kind::arguments) event.call_idx = num_calls_ - 1;
    events_.push_back(std::move(event));
  }
  raw_.clear();
}

// White space is text where text stands on both sides of it.
bool ResponseParser::plain_byte(Kind kind) {
  const bool space = is_space(front());
  bool& begun = kind == Kind::text ? text_begun_ : reasoning_begun_;
  if (!space && !begun && !raw_.empty()) emit_raw(Kind::markup);
  consume(1);
  if (space) return true;
  emit_raw(kind);
  begun = true;
  return true;
}

bool ResponseParser::step_text() {
  const Set::Found found = find(text_marks_);
  if (found.wait) return false;
  if (found.size == 0) return plain_byte(Kind::text);
  if (found.meaning == Meaning::section || found.meaning == Meaning::call) {
    begin_section(found);
    return true;
  }
  if (!raw_.empty()) emit_raw(text_begun_ ? Kind::text : Kind::markup);
  if (found.meaning == Meaning::body_end) {
    end_message(found.size);
    return true;
  }
  consume(found.size);
  if (found.meaning == Meaning::header) {
    mode_ = Mode::header;
    header_.clear();
    return true;
  }
  emit_raw(Kind::markup);
  if (found.meaning == Meaning::reasoning_opens) {
    mode_ = Mode::reasoning;
    reasoning_begun_ = false;
  }
  return true;
}

bool ResponseParser::step_reasoning() {
  const Set::Found found = find(reasoning_marks_);
  if (found.wait) return false;
  if (found.size == 0 || (found.meaning == Meaning::reasoning_opens && reasoning_begun_)) {
    return plain_byte(Kind::reasoning);
  }
  if (found.meaning == Meaning::section || found.meaning == Meaning::call) {
    begin_section(found);
  } else if (found.meaning == Meaning::body_end) {
    end_message(found.size);
  } else {
    consume(found.size);
    if (found.meaning == Meaning::header) {
      mode_ = Mode::header;
      header_.clear();
    } else {
      emit_raw(Kind::markup);
      if (found.meaning == Meaning::reasoning_closes) mode_ = Mode::text;
    }
  }
  return true;
}

void ResponseParser::end_message(size_t num_bytes) {
  consume(num_bytes);
  emit_raw(shown_message_ ? Kind::text : Kind::markup);
  mode_ = Mode::text;
  between_messages_ = true;
  shown_message_ = false;
  text_begun_ = false;
}

bool ResponseParser::step_header() {
  if (header_fresh_ && start_marks_.size() > 0) {
    const Set::Found start = find(start_marks_);
    if (start.wait) return false;
    if (start.size == 0) mode_ = Mode::text;
  }
  header_fresh_ = false;
  if (mode_ == Mode::text) return true;
  const Set::Found found = find(header_marks_);
  if (found.wait) return false;
  if (found.size == 0) header_ += front();
  consume(std::max<size_t>(found.size, 1));
  if (found.meaning == Meaning::header_end) {
    end_header();
  } else if (found.size > 0) {
    header_.clear();
  }
  return true;
}

void ResponseParser::end_header() {
  HeaderRule rule;
  for (const HeaderRule& each : dialect_->messages.rules) {
    rule = each;
    if (header_.find(each.contains) != std::string::npos) break;
  }
  between_messages_ = false;
  text_begun_ = false;
  reasoning_begun_ = false;
  mode_ = Mode::text;
  announced_.clear();
  const std::string after = header_.substr(header_.find(rule.contains) + rule.contains.size());
  const std::string name = after.substr(0, after.find_first_of(" <\n\t"));
  if (rule.meaning == HeaderMeaning::announcement) announced_ = name;
  if (rule.meaning == HeaderMeaning::call) {
    begin_message_call(name);
    return;
  }
  if (rule.meaning == HeaderMeaning::reasoning) {
    shown_message_ = start_ == ReasoningStart::off;
    if (!shown_message_) mode_ = Mode::reasoning;
  }
  if (rule.meaning == HeaderMeaning::nothing) mode_ = Mode::nothing;
  emit_raw(shown_message_ ? Kind::text : Kind::markup);
  text_begun_ = shown_message_;
}

void ResponseParser::begin_message_call(const std::string& name) {
  const bool known =
      tools_.tools().empty() || tools_.find(name) != nullptr || !dialect_->messages.header_starts.empty();
  if (!is_name(name) || !known) {  // a text without a header
    emit_raw(Kind::text);
    text_begun_ = true;
    return;
  }
  form_ = &dialect_->forms[0];
  name_ = name;
  id_.clear();
  in_message_call_ = true;
  begin_arguments();
}

bool ResponseParser::step_nothing() {
  const Set::Found found = find(message_marks_);
  if (found.wait) return false;
  if (found.size == 0) {
    consume(1);
    emit_raw(Kind::markup);
  } else if (found.meaning == Meaning::body_end) {
    end_message(found.size);
  } else {
    consume(found.size);
    mode_ = Mode::header;
    header_.clear();
  }
  return true;
}

void ResponseParser::begin_section(const Set::Found& found) {
  const std::string_view mark = pending().substr(0, found.size);
  candidates_.clear();
  for (const CallForm& form : dialect_->forms) {
    const bool fits =
        found.meaning == Meaning::section ? contains(form.opens, mark) : form.tagged.begin == mark;
    if (fits) candidates_.push_back(&form);
  }
  outer_ = mode_;
  mode_ = Mode::section;
  call_in_section_ = false;
  in_message_call_ = false;
  form_ = nullptr;
  build_section_marks();
  if (found.meaning == Meaning::call) return;  // its mark begins the call too
  const bool is_first_byte = candidates_[0]->bare && mark.back() == '{';
  consume(found.size - (is_first_byte ? 1 : 0));
}

void ResponseParser::build_section_marks() {
  section_marks_ = {};
  for (const CallForm* form : candidates_) {
    section_marks_.add(form->tagged.begin, Meaning::call);
    section_marks_.add_all(form->closes, Meaning::section_closes);
    if (!form->bare) section_marks_.add_all(form->opens, Meaning::separator);
    section_marks_.add_all(form->separators, Meaning::separator);
    if (form->arguments != ArgumentSyntax::parameters) {
      section_marks_.add_all(form->tagged.ends, Meaning::separator);
    }
  }
}

bool ResponseParser::step_section() {
  const Set::Found found = find(section_marks_);
  if (found.wait) return false;
  if (found.size > 0) {
    const std::string mark(pending().substr(0, found.size));
    consume(found.size);
    if (found.meaning == Meaning::call) {
      for (const CallForm* form : candidates_) {
        if (form->tagged.begin == mark) begin_name(*form);
      }
    } else if (found.meaning == Meaning::section_closes) {
      emit_raw(Kind::markup);
      mode_ = Mode::text;
      text_begun_ = false;
    }
    return true;
  }
  for (const CallForm* form : candidates_) {
    if (begin_call_in(*form)) return true;
  }
  const bool brackets = std::any_of(candidates_.begin(), candidates_.end(),
                                    [](const CallForm* form) { return form->body != CallBody::tagged; });
  if (is_space(front()) || (brackets && kBetweenObjects.find(front()) != std::string_view::npos)) {
    consume(1);
  } else {
    leave_section();
  }
  return true;
}

// Whether the next byte is the first of a call.
bool ResponseParser::begin_call_in(const CallForm& form) {
  const char byte = front();
  const bool letter = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || byte == '_';
  if (form.body == CallBody::object) {
    if (byte != '{') return false;
    form_ = &form;
    consume(1);
    begin_object();
    return true;
  }
  if (!letter || !form.tagged.begin.empty()) return false;
  begin_name(form);
  return true;
}

void ResponseParser::leave_section() {
  if (!call_in_section_) {
    fail();
    return;
  }
  if (!raw_.empty()) emit_raw(Kind::markup);
  mode_ = Mode::text;
  text_begun_ = false;
}

void ResponseParser::fail() {
  if (call_in_section_) {
    emit_raw(Kind::text);
    mode_ = Mode::text;
  } else {
    mode_ = outer_;
    if (!raw_.empty()) emit_raw(mode_ == Mode::reasoning ? Kind::reasoning : Kind::text);
  }
  (mode_ == Mode::reasoning ? reasoning_begun_ : text_begun_) = true;
}

void ResponseParser::begin_call() {
  ResponseEvent event;
  event.kind = Kind::call_begin;
  event.call_idx = num_calls_++;
  event.name = name_;
  event.id = id_;
  event.raw = raw_;
  raw_.clear();
  events_.push_back(std::move(event));
  call_begun_ = true;
  call_in_section_ = true;
  announced_.clear();
}

void ResponseParser::end_call() {
  ResponseEvent event;
  event.kind = Kind::call_end;
  event.call_idx = num_calls_ - 1;
  event.name = name_;
  event.id = id_;
  event.raw = raw_;
  raw_.clear();
  events_.push_back(std::move(event));
  call_begun_ = false;
  reader_.reset();
  mode_ = in_message_call_ ? Mode::nothing : Mode::section;
}

}  // namespace quire
