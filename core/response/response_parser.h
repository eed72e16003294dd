// Streaming parser of answers: splits the bytes of an answer into text, reasoning and tool calls, for any
// dialect.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/response/dialect.h"
#include "core/response/events.h"
#include "core/response/json_span.h"
#include "core/response/loose_reader.h"
#include "core/response/marks.h"
#include "core/response/value_types.h"

namespace quire {

enum class ReasoningStart : uint8_t {
  closed,  // the model may open it
  open,    // the prompt has opened it
  off      // reasoning and its marks are treated as text
};

// How an answer ended.
enum class AnswerEnd : uint8_t {
  complete,  // the model ended it; a call that lacks only closing brackets is complete
  cut_off    // by a limit
};

// A tolerant parser: anything that is not a call is text, and no byte is lost. The events do not depend on
// how the bytes are split, except that text may be divided into more events. Time and memory are linear in
// the answer. A copy continues from the same state. Not thread-safe.
class ResponseParser {
 public:
  // Borrows the dialect, which must be in the table.
  ResponseParser(const Dialect& dialect, ToolSet tools, ReasoningStart start);

  // Takes over the state at the end of the prompt, which may have begun reasoning or a message. Call it
  // before feed().
  void follow(std::string_view prompt);
  // If this or finish() throws, later calls of them throw ErrorCode::out_of_memory.
  void feed(std::string_view bytes);
  // Ends the answer. A call that was cut off gets no end event; an incomplete closing mark becomes markup.
  void finish(AnswerEnd end = AnswerEnd::complete);
  // Returns the events since the last call. Adjacent text is one event; a text event ends with an incomplete
  // character only after finish().
  std::vector<ResponseEvent> take();
  // Returns whether the next bytes would be reasoning.
  bool in_reasoning() const { return mode_ == Mode::reasoning; }
  // Returns the state of reasoning for the rest of the answer.
  ReasoningStart reasoning() const {
    if (start_ == ReasoningStart::off) return start_;
    return in_reasoning() ? ReasoningStart::open : ReasoningStart::closed;
  }
  // Returns whether the next bytes would be text of the answer.
  bool in_text() const { return mode_ == Mode::text && !message_.is_over; }
  // Returns whether a call has begun and not ended yet.
  bool in_call() const { return call_.begun; }
  const Dialect& dialect() const { return *dialect_; }

 private:
  using Kind = ResponseEvent::Kind;
  enum class Mode : uint8_t {
    text,
    reasoning,
    header,   // of a message
    nothing,  // a message without meaning
    section,  // a call may begin
    object,   // a call that is a JSON object
    name,     // of a call between marks
    id,
    arguments,  // between marks
    key,
    hint,
    value
  };
  enum class Meaning : uint8_t {
    none,
    reasoning_opens,
    reasoning_closes,
    section,
    call,
    noise,
    header,
    header_end,
    body_end,
    section_closes,
    separator,
    id,
    body,
    stop,
    parameter,
    key_end,
    value_begin,
    value_end,
    verbatim,
    verbatim_end
  };
  using Set = MarkSet<Meaning>;
  enum class Part : uint8_t { key, colon, value, after_value };
  enum class Role : uint8_t { other, name, arguments, id };

  // The marks that each mode searches for.
  struct Marks {
    Set text, reasoning, header, start;
    Set message;  // that end a message
    Set section;  // of the forms in the section
    Set name;     // of the form
    Set call;     // that follow an argument: the next one, the end of the call, and what may come after it
    Set value;
    // Line end and closing mark of a value, and the opening mark of an element, with the key filled in. Marks
    // refer to them, also those of copies.
    std::shared_ptr<const std::string> end_line, open_element;
  };
  struct Input {
    std::string pending;  // bytes not read yet
    size_t num_read = 0;
    std::string raw;  // bytes read that are not part of an event yet
    MoreToCome more = MoreToCome::yes;
    bool is_changing = false;  // also true after a call that failed
  };
  // State of the current message of the answer.
  struct Message {
    bool text_begun = false;  // white space is now part of the text
    bool reasoning_begun = false;
    bool is_over = false;         // and the next message has not begun
    bool header_fresh = false;    // no part of the header was read
    bool marks_are_text = false;  // its marks are text as well
    std::string header;
    std::string announced;  // the name of the call in its body
  };
  // A part of the answer in which calls may begin.
  struct Section {
    Mode outer = Mode::text;  // the mode before it
    std::vector<const CallForm*> candidates;
    const CallForm* form = nullptr;
    std::vector<std::string_view> ends;  // marks after which a call of the form cannot go on
    bool has_call = false;
    bool of_message = false;
  };
  struct Call {
    uint32_t num_begun = 0;  // in this answer
    bool begun = false;
    std::string name;
    std::string id;
    std::optional<LooseReader> reader;  // of arguments without marks around each, or of a part of an object
    bool streaming = false;             // the value that is read is emitted as it arrives
    std::optional<std::string> held_arguments;  // arguments that came before the name
    bool has_arguments = false;
    std::vector<std::string> keys;  // of the arguments so far, if each has marks of its own
    std::string cut_character;      // the bytes of its arguments so far that are not emitted yet
  };
  // A call that is a JSON object.
  struct Object {
    Part part = Part::key;
    Role role = Role::other;
    size_t num_keys = 0;
  };
  // An argument between marks.
  struct Value {
    std::string key;
    std::string hint;
    PlainValue plain;
    JsonSpan span;
    std::string capture;
    size_t depth = 0;  // of elements with the name of the argument
    bool begun = false;
    bool has_bytes = false;
    bool on_lines = false;
    bool may_be_json = false;
    bool is_verbatim = false;
  };
  // Whether the text at a place is what it may be.
  enum class Answer : uint8_t { no, yes, wait };

  // Processes some input in the current mode; returns false if it needs more. There is one function for each
  // mode.
  void begin_change();
  bool step();
  void run();
  bool step_text();
  bool step_reasoning();
  bool step_header();
  bool step_nothing();
  bool step_section();
  bool step_object();
  bool step_name();
  bool step_id();
  bool step_arguments();
  bool step_json();
  bool step_reader();
  bool step_parameters();
  bool step_key();
  bool step_hint();
  bool step_value();

  void build_sets();
  void add_calls(Set& set) const;
  bool plain_byte(Kind kind);
  void end_message(size_t num_bytes);
  void end_header();
  void begin_message_call(const std::string& name);
  void begin_section(const Set::Found& found);
  void build_section_marks();
  bool begin_call_in(const CallForm& form);
  void leave_section();
  // Treats the bytes since the section began as text, because they are not a call.
  void fail();

  void begin_object();
  bool step_object_reader();
  void object_key(char byte);
  void object_value(char byte);
  void end_object_part();
  void end_object_key();
  void end_object_value();
  bool take_object_value(const std::string& value);
  void end_object();
  void end_broken_object();

  void begin_name(const CallForm& form);
  bool take_name_byte();
  void end_name(const Set::Found& found);
  void begin_arguments();
  void build_call_marks();
  void read_arguments(LooseSyntax::Kind kind);
  LooseSyntax json_syntax() const;
  void emit_read();
  void end_tagged_call(size_t num_bytes);
  void begin_value();
  void build_value_marks();
  bool step_value_byte();
  void end_value_at(const Set::Found& found);
  Answer closes_value(const Set::Found& found) const;
  Answer breaks_value(size_t& num_bytes) const;
  Answer begins_parameter(std::string_view text) const;
  Answer ends_call(std::string_view text) const;
  bool may_be_parameter(std::string_view key) const;
  bool nests_elements() const { return parameter().elements && !call_.streaming; }
  void count_elements(const Set::Found& found);
  void watch_json(char byte);
  void add_to_value(std::string_view bytes);
  void end_value();
  std::string key_json() const;

  void emit_call(Kind kind);
  void begin_call();
  void end_call();
  // Leaves a call that cannot go on, without an end.
  void break_off();
  void consume(size_t num_bytes);
  void emit(Kind kind, std::string text);
  void emit_raw(Kind kind) { emit(kind, input_.raw); }
  // Returns whether the answer ends inside an incomplete closing mark.
  bool ends_in_closing_mark() const;
  void take_cut_mark();
  void finish_held(AnswerEnd end);
  void finish_call(AnswerEnd end);
  void finish_name();
  char front() const { return input_.pending[input_.num_read]; }
  std::string_view pending() const { return std::string_view(input_.pending).substr(input_.num_read); }
  Set::Found find(const Set& set) const { return set.find(pending(), input_.more); }
  const ParameterSyntax& parameter() const { return section_.form->tagged.parameter; }

  const Dialect* dialect_;
  ToolSet tools_;
  ReasoningStart start_;
  Marks marks_;

  Mode mode_ = Mode::text;
  Input input_;
  std::vector<ResponseEvent> events_;
  Message message_;
  Section section_;
  Call call_;
  Object object_;
  Value value_;
};

}  // namespace quire
