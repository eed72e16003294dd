// Operators on values, as Python has them.
#pragma once

#include "core/chat/syntax.h"

namespace quire::chat {

Value apply_binary(Machine& machine, BinaryOp op, const Value& left, const Value& right);
Value apply_unary(Machine& machine, UnaryOp op, const Value& operand);
bool apply_compare(Machine& machine, CompareOp op, const Value& left, const Value& right);
// left + right of two texts; where one of them is markup, the other is escaped.
Value join_texts(Machine& machine, const Value& left, const Value& right);
// &, <, >, ' and " as HTML writes them; markup stays as it is.
Value escape_markup(Machine& machine, const Value& value);

}  // namespace quire::chat
