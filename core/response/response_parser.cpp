// Parses text, reasoning and messages. Sections of calls, calls and their values are in read_*.cpp.
#include "core/response/response_parser.h"

#include <algorithm>

#include "core/base/ascii.h"
#include "core/base/error.h"
#include "core/base/utf8.h"
#include "core/base/white_space.h"

namespace quire {
namespace {

size_t last_end(std::string_view text, const Marks& marks) {
  size_t end = 0;
  for (const std::string_view mark : marks) {
    const size_t pos = text.rfind(mark);
    if (pos != std::string_view::npos) end = std::max(end, pos + mark.size());
  }
  return end;
}

// Returns how many bytes at the end of an event's text are an incomplete character.
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
    return is_ascii_letter_or_digit(byte) || byte == '_' || byte == '-' || byte == '.' || byte == ':' ||
           byte == '/';
  });
}

}  // namespace

ResponseParser::ResponseParser(const Dialect& dialect, ToolSet tools, ReasoningStart start)
    : dialect_(&dialect), tools_(std::move(tools)), start_(start) {
  build_sets();
  if (start == ReasoningStart::open && has_reasoning(dialect)) {
    mode_ = Mode::reasoning;
  } else if (!dialect.messages.header_begins.empty()) {
    mode_ = Mode::header;
    message_.header_fresh = true;
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
    marks_.text.add_all(dialect_->reasoning.opens, Meaning::reasoning_opens);
    marks_.text.add_all(dialect_->reasoning.closes, Meaning::reasoning_closes);
  }
  add_calls(marks_.text);
  marks_.text.add_all(dialect_->noise, Meaning::noise);
  marks_.reasoning.add_all(dialect_->reasoning.closes, Meaning::reasoning_closes);
  marks_.reasoning.add_all(dialect_->reasoning.opens, Meaning::reasoning_opens);
  if (dialect_->reasoning.calls == CallsInReasoning::end_it) add_calls(marks_.reasoning);
  for (Set* set : {&marks_.text, &marks_.reasoning, &marks_.header, &marks_.message}) {
    set->add_all(messages.header_begins, Meaning::header);
    set->add_all(messages.body_ends, Meaning::body_end);
  }
  marks_.header.add(messages.header_end, Meaning::header_end);
  marks_.start.add_all(messages.header_starts, Meaning::header);
}

void ResponseParser::follow(std::string_view prompt) {
  const MessageSyntax& messages = dialect_->messages;
  if (const size_t begin = last_end(prompt, messages.header_begins); begin > 0) {
    message_.header_fresh = false;
    feed(prompt.substr(begin));
    events_.clear();
    input_.raw.clear();
  } else if (mode_ == Mode::text && start_ != ReasoningStart::off) {
    const size_t open = last_end(prompt, dialect_->reasoning.opens);
    if (open <= last_end(prompt, dialect_->reasoning.closes)) return;
    mode_ = Mode::reasoning;
    message_.reasoning_begun = prompt.find_first_not_of(kSpace, open) != std::string_view::npos;
  }
}

void ResponseParser::feed(std::string_view bytes) {
  begin_change();
  for (const char byte : bytes) {
    input_.pending += byte;
    run();
  }
  input_.is_changing = false;
}

// A step that throws leaves the parser in the middle of a change.
void ResponseParser::begin_change() {
  if (input_.is_changing)
    throw Error(
        ErrorCode::out_of_memory,
        "response parser: an earlier call ran out of memory; parse the answer again with a new parser");
  input_.is_changing = true;
}

void ResponseParser::run() {
  while (input_.num_read < input_.pending.size() && step()) {
  }
  if (input_.num_read == input_.pending.size()) {
    input_.pending.clear();
    input_.num_read = 0;
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

// Covers only marks that end reasoning, a value, a call or a message; other text is unlikely to begin like
// these marks at these positions.
bool ResponseParser::ends_in_closing_mark() const {
  const auto is_cut = [&](const Set& set, std::initializer_list<Meaning> meanings) {
    return std::any_of(meanings.begin(), meanings.end(),
                       [&](Meaning meaning) { return set.is_cut(pending(), meaning); });
  };
  if (pending().empty()) return false;
  switch (mode_) {
    case Mode::text:
      return message_.is_over && is_cut(marks_.text, {Meaning::header});
    case Mode::reasoning:
      return is_cut(marks_.reasoning, {Meaning::reasoning_closes, Meaning::body_end});
    case Mode::section:
      return section_.has_call && is_cut(marks_.section, {Meaning::section_closes, Meaning::separator});
    case Mode::arguments:
    case Mode::object:
      return (!call_.reader || !call_.reader->in_string()) &&
             is_cut(marks_.call, {Meaning::stop, Meaning::section_closes});
    case Mode::value:
      return is_cut(marks_.value, {Meaning::value_end, Meaning::verbatim_end});
    default:
      return false;
  }
}

void ResponseParser::take_cut_mark() {
  const bool in_value = mode_ == Mode::value && !call_.streaming;
  const bool in_object = mode_ == Mode::object && !call_.begun;
  consume(pending().size());
  if (!in_value && !in_object) emit_raw(Kind::markup);
}

void ResponseParser::finish(AnswerEnd end) {
  begin_change();
  input_.more = MoreToCome::no;
  while (!pending().empty()) {
    if (ends_in_closing_mark()) {
      take_cut_mark();
    } else if (!step()) {
      break;
    }
  }
  finish_held(end);
  input_.is_changing = false;
}

// Begins a call whose name is complete, even if its arguments are missing.
void ResponseParser::finish_name() {
  const bool in_object =
      mode_ == Mode::object || mode_ == Mode::arguments || (mode_ == Mode::id && !call_.name.empty());
  const bool is_certain =
      section_.form != nullptr && (!section_.form->bare || tools_.find(call_.name) != nullptr);
  if (call_.begun) return;
  if (in_object && is_certain && !call_.name.empty()) {
    begin_call();
  } else if (!message_.announced.empty() && (mode_ == Mode::section || mode_ == Mode::name)) {
    call_.name = message_.announced;
    begin_call();
  }
}

// Completes a call that lacks only closing brackets and marks.
void ResponseParser::finish_call(AnswerEnd end) {
  if (!call_.begun) return;
  const bool is_complete = end == AnswerEnd::complete;
  if (call_.reader && call_.streaming) {
    if (is_complete && call_.reader->lacks_only_brackets()) {
      end_tagged_call(0);
    } else {
      call_.reader->finish();
      emit_read();
    }
  } else if (mode_ == Mode::object && is_complete && call_.has_arguments) {
    end_call();
  } else if (mode_ == Mode::arguments && is_complete && !call_.keys.empty() && trimmed(input_.raw).empty()) {
    end_tagged_call(0);
  } else if (mode_ == Mode::value && !call_.streaming) {
    emit(Kind::arguments, key_json());
  }
}

void ResponseParser::finish_held(AnswerEnd end) {
  finish_name();
  finish_call(end);
  if (input_.raw.empty()) return;
  const bool is_bare = section_.form != nullptr && section_.form->bare && !call_.begun;
  const bool is_text = (mode_ == Mode::text && message_.text_begun) ||
                       (mode_ == Mode::section && !section_.has_call) ||
                       (is_bare && (mode_ == Mode::object || mode_ == Mode::name));
  if (mode_ == Mode::reasoning && message_.reasoning_begun) {
    emit_raw(Kind::reasoning);
  } else {
    emit_raw(is_text ? Kind::text : Kind::markup);
  }
}

std::vector<ResponseEvent> ResponseParser::take() {
  std::vector<ResponseEvent> taken;
  const size_t num_held =
      events_.empty() || input_.more == MoreToCome::no ? 0 : cut_character(events_.back());
  if (num_held > 0) {
    ResponseEvent& held = taken.emplace_back(events_.back());
    held.text.erase(0, held.text.size() - num_held);
    held.raw = held.text;
  }
  taken.swap(events_);
  if (num_held == 0) return taken;
  ResponseEvent& last = taken.back();
  last.text.resize(last.text.size() - num_held);
  last.raw.resize(last.raw.size() - num_held);
  if (last.raw.empty()) taken.pop_back();
  return taken;
}

void ResponseParser::consume(size_t num_bytes) {
  input_.raw += pending().substr(0, num_bytes);
  input_.num_read += num_bytes;
}

// Arguments are emitted in whole characters.
void ResponseParser::emit(Kind kind, std::string text) {
  if (kind == Kind::arguments) {
    std::string json;
    append_utf8_json(json, text, call_.cut_character);
    text = std::move(json);
    call_.has_arguments = true;
  }
  const bool joins = !events_.empty() && events_.back().kind == kind &&
                     (kind != Kind::arguments || events_.back().call_idx + 1 == call_.num_begun);
  if (kind == Kind::markup) text.clear();
  if (joins) {
    events_.back().text += text;
    events_.back().raw += input_.raw;
  } else {
    ResponseEvent event;
    event.kind = kind;
    event.text = std::move(text);
    event.raw = input_.raw;
    if (kind == Kind::arguments) event.call_idx = call_.num_begun - 1;
    events_.push_back(std::move(event));
  }
  input_.raw.clear();
}

// Reads a byte without a special meaning. White space is text only if there is text on both sides.
bool ResponseParser::plain_byte(Kind kind) {
  const bool space = is_space(front());
  bool& begun = kind == Kind::text ? message_.text_begun : message_.reasoning_begun;
  if (!space && !begun && !input_.raw.empty()) emit_raw(Kind::markup);
  consume(1);
  if (space) return true;
  emit_raw(kind);
  begun = true;
  return true;
}

bool ResponseParser::step_text() {
  const Set::Found found = find(marks_.text);
  if (found.wait) return false;
  if (found.size == 0) return plain_byte(Kind::text);
  if (found.meaning == Meaning::section || found.meaning == Meaning::call) {
    begin_section(found);
    return true;
  }
  if (!input_.raw.empty()) emit_raw(message_.text_begun ? Kind::text : Kind::markup);
  if (found.meaning == Meaning::body_end) {
    end_message(found.size);
    return true;
  }
  consume(found.size);
  if (found.meaning == Meaning::header) {
    mode_ = Mode::header;
    message_.header.clear();
    return true;
  }
  emit_raw(Kind::markup);
  if (found.meaning == Meaning::reasoning_opens) {
    mode_ = Mode::reasoning;
    message_.reasoning_begun = false;
  }
  return true;
}

bool ResponseParser::step_reasoning() {
  const Set::Found found = find(marks_.reasoning);
  if (found.wait) return false;
  if (found.size == 0 || (found.meaning == Meaning::reasoning_opens && message_.reasoning_begun)) {
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
      message_.header.clear();
    } else {
      emit_raw(Kind::markup);
      if (found.meaning == Meaning::reasoning_closes) mode_ = Mode::text;
    }
  }
  return true;
}

void ResponseParser::end_message(size_t num_bytes) {
  consume(num_bytes);
  emit_raw(message_.marks_are_text ? Kind::text : Kind::markup);
  mode_ = Mode::text;
  message_.is_over = true;
  message_.marks_are_text = false;
  message_.text_begun = false;
}

bool ResponseParser::step_header() {
  if (message_.header_fresh && marks_.start.size() > 0) {
    const Set::Found start = find(marks_.start);
    if (start.wait) return false;
    if (start.size == 0) mode_ = Mode::text;
  }
  message_.header_fresh = false;
  if (mode_ == Mode::text) return true;
  const Set::Found found = find(marks_.header);
  if (found.wait) return false;
  if (found.size == 0) message_.header += front();
  consume(std::max<size_t>(found.size, 1));
  if (found.meaning == Meaning::header_end) {
    end_header();
  } else if (found.size > 0) {
    message_.header.clear();
  }
  return true;
}

void ResponseParser::end_header() {
  HeaderRule rule;
  for (const HeaderRule& each : dialect_->messages.rules) {
    rule = each;
    if (message_.header.find(each.contains) != std::string::npos) break;
  }
  message_.is_over = false;
  message_.text_begun = false;
  message_.reasoning_begun = false;
  mode_ = Mode::text;
  message_.announced.clear();
  const std::string after =
      message_.header.substr(message_.header.find(rule.contains) + rule.contains.size());
  const std::string name = after.substr(0, after.find_first_of(" <\n\t"));
  if (rule.meaning == HeaderMeaning::announcement) message_.announced = name;
  if (rule.meaning == HeaderMeaning::call) {
    begin_message_call(name);
    return;
  }
  if (rule.meaning == HeaderMeaning::reasoning) {
    message_.marks_are_text = start_ == ReasoningStart::off;
    if (!message_.marks_are_text) mode_ = Mode::reasoning;
  }
  if (rule.meaning == HeaderMeaning::nothing) mode_ = Mode::nothing;
  emit_raw(message_.marks_are_text ? Kind::text : Kind::markup);
  message_.text_begun = message_.marks_are_text;
}

void ResponseParser::begin_message_call(const std::string& name) {
  const bool known =
      tools_.tools().empty() || tools_.find(name) != nullptr || !dialect_->messages.header_starts.empty();
  if (!is_name(name) || !known) {  // text without a header
    emit_raw(Kind::text);
    message_.text_begun = true;
    return;
  }
  section_.form = &dialect_->forms[0];
  call_.name = name;
  call_.id.clear();
  section_.of_message = true;
  begin_arguments();
}

bool ResponseParser::step_nothing() {
  const Set::Found found = find(marks_.message);
  if (found.wait) return false;
  if (found.size == 0) {
    consume(1);
    emit_raw(Kind::markup);
  } else if (found.meaning == Meaning::body_end) {
    end_message(found.size);
  } else {
    consume(found.size);
    mode_ = Mode::header;
    message_.header.clear();
  }
  return true;
}

}  // namespace quire
