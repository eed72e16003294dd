// Text operations shared by methods and filters. Positions are in bytes unless stated otherwise.
#pragma once

#include <string_view>
#include <vector>

#include "core/chat/machine.h"
#include "core/chat/unicode.h"

namespace quire::chat {

// Returns the bytes [begin, end).
Value part_of(Machine& machine, const TextRef& text, size_t begin, size_t end);
// The ends of a text at which to strip.
struct Sides {
  bool begin = true;
  bool end = true;
};
// Removes white space, or the characters of `chars`, from the given ends.
Value stripped(Machine& machine, const TextRef& text, Sides sides, const Text* chars = nullptr);
Value replaced(Machine& machine, const Text& text, const Text& from, const Text& to, int64_t max_count);
Value in_case(Machine& machine, const Text& text, CaseChange change);
// The beginnings of words for titled(). `letters`: after a character that is not a letter, as in str.title.
// `spaces`: after white space, a dash or an opening bracket, as in the filter `title`.
enum class TitleWords { letters, spaces };
Value titled(Machine& machine, const Text& text, TitleWords words);
Value capitalized(Machine& machine, const Text& text);
std::vector<Value> lines_of(Machine& machine, const TextRef& text, bool keep_ends);
Value joined(Machine& machine, const Text& separator, const std::vector<Value>& texts);

}  // namespace quire::chat
