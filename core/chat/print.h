// Converts values to text: Python's str() and repr(), and JSON as Python's json module writes it.
#pragma once

#include <string>

#include "core/chat/objects.h"

namespace quire::chat {

void append_str(Machine& machine, TextBuilder& out, const Value& value);
void append_repr(Machine& machine, TextBuilder& out, const Value& value);
// Returns str(value) as a value; a text is returned unchanged.
Value str_of(Machine& machine, const Value& value);
// Returns the shortest decimal text that parses back to the same number.
std::string float_text(double value);

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool has_indent = false;  // one item per line; each level is indented by `indent`
  std::string indent;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};

void append_json(Machine& machine, TextBuilder& out, const Value& value, const JsonStyle& style);

}  // namespace quire::chat
