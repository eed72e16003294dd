// Operators on values, with the semantics of Python.
#pragma once

#include "core/chat/syntax.h"

namespace quire::chat {

Value apply_binary(Machine& machine, BinaryOp op, const Value& left, const Value& right);
Value apply_unary(Machine& machine, UnaryOp op, const Value& operand);
bool apply_compare(Machine& machine, CompareOp op, const Value& left, const Value& right);
// Concatenates two texts; if one is markup, the other is escaped.
Value join_texts(Machine& machine, const Value& left, const Value& right);
// Escapes &, <, >, ' and " for HTML; markup stays unchanged.
Value escape_markup(Machine& machine, const Value& value);

}  // namespace quire::chat
