// Values as text: str() and repr() of Python, and JSON as its json module writes it.
#pragma once

#include <string>

#include "core/chat/objects.h"

namespace quire::chat {

void append_str(Machine& machine, TextBuilder& out, const Value& value);
void append_repr(Machine& machine, TextBuilder& out, const Value& value);
// str() as a value; a text stays what it is.
Value str_of(Machine& machine, const Value& value);
// The shortest digits that read back as the same number.
std::string float_text(double value);

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool has_indent = false;  // lines, each indented by `indent` for each level
  std::string indent;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};

void append_json(Machine& machine, TextBuilder& out, const Value& value, const JsonStyle& style);

}  // namespace quire::chat
