// Format specs: width, alignment, sign, precision and type of one value, as str.format and the % operator of
// Python define them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/chat/machine.h"
#include "core/chat/value.h"

namespace quire::chat {

struct FieldSpec {
  std::string fill = " ";
  char align = '\0';  // < > ^ =
  char sign = '-';    // '-', '+' or a space
  bool alternate = false;
  bool zero = false;
  char grouping = '\0';  // , or _
  int64_t width = 0;
  int64_t precision = -1;
  char type = '\0';
};

// Reads the number at `pos` and advances `pos` past it; returns -1 if there is none.
int64_t read_number(Machine& machine, std::string_view text, size_t& pos);

// Reads a format spec of str.format: the part of a field after the colon.
FieldSpec read_field_spec(Machine& machine, std::string_view text);

// Append a value in the form of a spec.
void append_integer(Machine& machine, TextBuilder& out, const FieldSpec& spec, const Value& value);
void append_real(Machine& machine, TextBuilder& out, const FieldSpec& spec, const Value& value);
void append_text(Machine& machine, TextBuilder& out, const FieldSpec& spec, const Text& text);
// Appends a value as its type and the type of the spec require. Fails if the two do not fit.
void append_field(Machine& machine, TextBuilder& out, const FieldSpec& spec, const Value& value);

}  // namespace quire::chat
