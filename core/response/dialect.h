// How a family of models writes an answer: which marks stand around reasoning and calls, and how a call's
// name and arguments are written. Plain data; one automaton reads all of them (response_parser.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace quire {

// A few values of a constant table.
template <typename T, size_t kCapacity>
class ShortList {
 public:
  constexpr ShortList() = default;
  constexpr ShortList(std::initializer_list<T> values) {
    for (const T& value : values) values_.at(size_++) = value;
  }
  constexpr const T* begin() const { return values_.data(); }
  constexpr const T* end() const { return values_.data() + size_; }
  constexpr size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr const T& operator[](size_t idx) const { return values_.at(idx); }

 private:
  std::array<T, kCapacity> values_ = {};
  size_t size_ = 0;
};

using Marks = ShortList<std::string_view, 10>;

enum class CallsInReasoning : uint8_t {
  are_reasoning,  // a call that is thought about is a thought
  end_it          // the model goes over to calls without the closing mark
};

struct ReasoningSyntax {
  Marks opens = {};   // the first is what the model writes
  Marks closes = {};  // likewise
  CallsInReasoning calls = CallsInReasoning::are_reasoning;
};

// `<parameter=KEY>VALUE</parameter>`. Between key and value there may stand a hint of the value's type.
struct ParameterSyntax {
  std::string_view begin = {};
  std::string_view key_end = {};
  std::string_view value_begin = {};  // after the hint; empty: key_end is followed by the value
  std::string_view value_end = {};    // with kKeyHere in the place of the key
  std::string_view string_hint =
      {};                 // the hint that says that the value is text; any other known one: it is JSON
  bool lines = false;     // the value stands on lines of its own
  bool elements = false;  // lists and objects are elements again
  bool python = false;    // lists and objects are written as Python does
};
constexpr char kKeyHere = '\x01';

enum class ArgumentSyntax : uint8_t { json, parameters, python, loose };

// A call whose name stands between marks. Unused by calls that are JSON objects.
struct TaggedSyntax {
  std::string_view begin = {};        // before the name; empty: the section's mark is followed by it
  std::string_view name_prefix = {};  // that is no part of the name
  char index_sign =
      '\0';  // what follows it in the name is the number of the call; name and number are its id
  std::string_view id_end = {};    // where an id stands before the name
  std::string_view id_begin = {};  // where one stands between name and arguments
  Marks body_begins = {};          // before the arguments; the first is what the model writes
  ParameterSyntax parameter = {};
  Marks ends = {};
};

struct ObjectSyntax {
  std::string_view name = "name";
  std::string_view arguments = "arguments";
  std::string_view id = {};  // empty: none
  bool name_is_key = false;  // {"NAME": {...}}
};

enum class CallBody : uint8_t { object, tagged, python };

// One way to write calls: a section of them, between marks or not.
struct CallForm {
  CallBody body = CallBody::object;
  Marks opens = {};  // of a section; the first is what the model writes
  Marks closes = {};
  Marks separators = {};  // between calls, beside white space, commas and brackets
  bool bare = false;      // `opens` are no marks of the dialect but how a call may begin in the midst of text
  bool list = false;      // calls are written as a list, even one alone
  bool one_per_section = false;
  ArgumentSyntax arguments = ArgumentSyntax::json;
  ObjectSyntax object = {};
  TaggedSyntax tagged = {};
};

enum class HeaderMeaning : uint8_t {
  text,
  reasoning,
  call,          // the name is what follows `contains`; the message is the call's arguments
  announcement,  // the name is what follows `contains`; the message has the call in a form of the dialect
  nothing
};

// What a header says where it has `contains`.
struct HeaderRule {
  std::string_view contains = {};
  HeaderMeaning meaning = HeaderMeaning::text;
};

// Answers of several messages, each with a header that says what it is.
struct MessageSyntax {
  Marks header_begins = {};  // empty: the dialect has no messages
  Marks header_starts = {};  // how a header goes on that the prompt has begun; empty: in any way
  std::string_view header_end = {};
  Marks body_ends = {};
  ShortList<HeaderRule, 6> rules = {};  // the first that fits
  // What the model writes, from where the prompt has ended on: the header of reasoning, of text and of a call
  // (with kKeyHere in the place of the name), how a message of reasoning or a call ends, and how the next
  // begins.
  std::string_view write_reasoning = {};
  std::string_view write_text = {};
  std::string_view write_call = {};
  std::string_view write_next = {};
  bool single_call = false;
};

struct Dialect {
  std::string_view name = {};
  // The dialect of a template that has all marks of one of these.
  ShortList<Marks, 4> tells = {};
  ReasoningSyntax reasoning = {};
  ShortList<CallForm, 3> forms = {};
  Marks noise = {};  // marks that say nothing
  MessageSyntax messages = {};
};

}  // namespace quire
