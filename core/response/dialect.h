// Dialects: how a family of models writes answers with reasoning and tool calls. Marks (marker strings such
// as <tool_call>) surround reasoning and calls; a dialect also defines the syntax of a call's name and
// arguments. Plain data; one parser reads all dialects (response_parser.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace quire {

// A list of a few values for constant tables.
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
  are_reasoning,  // a call inside reasoning is part of the reasoning
  end_it          // a call ends the reasoning, even without the closing mark
};

struct ReasoningSyntax {
  Marks opens = {};   // the model writes the first one
  Marks closes = {};  // the model writes the first one
  CallsInReasoning calls = CallsInReasoning::are_reasoning;
};

// Syntax of a parameter: `<parameter=KEY>VALUE</parameter>`. A hint of the value's type may come between key
// and value.
struct ParameterSyntax {
  std::string_view begin = {};
  std::string_view key_end = {};
  std::string_view value_begin = {};  // after the hint; empty: the value follows key_end directly
  std::string_view value_end = {};    // with kKeyPlaceholder in the place of the key
  // Type hint for text values; any other known hint means that the value is JSON.
  std::string_view string_hint = {};
  bool lines = false;     // the value is on its own lines
  bool elements = false;  // lists and objects are nested elements
  bool python = false;    // lists and objects are in Python syntax
};
constexpr char kKeyPlaceholder = '\x01';

enum class ArgumentSyntax : uint8_t { json, parameters, python, loose };

// A call whose name is between marks. Not used if calls are JSON objects.
struct TaggedSyntax {
  std::string_view begin = {};        // before the name; empty: the name follows the section's mark
  std::string_view name_prefix = {};  // not part of the name
  // Separates the name from the index of the call; name and index together are the id.
  char index_sign = '\0';
  std::string_view id_end = {};    // ends an id before the name
  std::string_view id_begin = {};  // begins an id between name and arguments
  Marks body_begins = {};          // before the arguments; the model writes the first one
  ParameterSyntax parameter = {};
  Marks ends = {};
};

struct ObjectSyntax {
  std::string_view name = "name";
  std::string_view arguments = "arguments";
  std::string_view id = {};  // empty: calls have no id
  bool name_is_key = false;  // {"NAME": {...}}
};

enum class CallBody : uint8_t { object, tagged, python };

// One syntax of calls: a section of calls, with or without marks around it.
struct CallForm {
  CallBody body = CallBody::object;
  Marks opens = {};  // of a section; the model writes the first one
  Marks closes = {};
  Marks separators = {};  // between calls, in addition to white space, commas and brackets
  bool bare = false;      // `opens` are not marks but the way a call begins within text
  bool list = false;      // calls are written as a list, even a single one
  bool one_per_section = false;
  ArgumentSyntax arguments = ArgumentSyntax::json;
  ObjectSyntax object = {};
  TaggedSyntax tagged = {};
};

enum class HeaderMeaning : uint8_t {
  text,
  reasoning,
  call,          // a call: its name follows `contains`, and the body is its arguments
  announcement,  // a call: its name follows `contains`, and the body is the call in a form of the dialect
  nothing
};

// The meaning of a message whose header contains `contains`.
struct HeaderRule {
  std::string_view contains = {};
  HeaderMeaning meaning = HeaderMeaning::text;
};

// Syntax of answers that consist of several messages, each with a header that gives its type.
struct MessageSyntax {
  Marks header_begins = {};  // empty: answers are not split into messages
  Marks header_starts = {};  // possible continuations of a header that the prompt has begun; empty: any
  std::string_view header_end = {};
  Marks body_ends = {};
  ShortList<HeaderRule, 6> rules = {};  // the first match counts
  // The texts that the model writes, starting at the end of the prompt: the headers of reasoning, text and a
  // call (with kKeyPlaceholder in place of the name), and the text between two messages.
  std::string_view write_reasoning = {};
  std::string_view write_text = {};
  std::string_view write_call = {};
  std::string_view write_next = {};
  bool single_call = false;
};

struct Dialect {
  std::string_view name = {};
  // Marks to detect the dialect by: a template that contains all marks of one entry has this dialect.
  ShortList<Marks, 4> tells = {};
  ReasoningSyntax reasoning = {};
  ShortList<CallForm, 3> forms = {};
  Marks noise = {};  // marks without a meaning
  MessageSyntax messages = {};
};

inline bool has_reasoning(const Dialect& dialect) {
  return !dialect.reasoning.opens.empty() || !dialect.messages.write_reasoning.empty();
}

}  // namespace quire
