// Operations on texts that methods and filters share. Positions are bytes, but where they say so.
#pragma once

#include <string_view>
#include <vector>

#include "core/chat/machine.h"
#include "core/chat/unicode.h"

namespace quire::chat {

// The bytes [begin, end).
Value part_of(Machine& machine, const TextRef& text, size_t begin, size_t end);
// Without the white space, or without the characters of `chars`, that it begins or ends with.
struct Sides {
  bool begin = true;
  bool end = true;
};
Value stripped(Machine& machine, const TextRef& text, Sides sides, const Text* chars = nullptr);
Value replaced(Machine& machine, const Text& text, const Text& from, const Text& to, int64_t max_count);
Value in_case(Machine& machine, const Text& text, CaseChange change);
// The first letter of each word as a title, the others small. `after_letter`: words end where letters do, as
// str.title has it; else where white space, a dash or an opening bracket stands, as the filter has it.
enum class TitleWords { letters, spaces };
Value titled(Machine& machine, const Text& text, TitleWords words);
Value capitalized(Machine& machine, const Text& text);
std::vector<Value> lines_of(Machine& machine, const TextRef& text, bool keep_ends);
Value joined(Machine& machine, const Text& separator, const std::vector<Value>& texts);

}  // namespace quire::chat
