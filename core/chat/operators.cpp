#include "core/chat/operators.h"

#include <cmath>
#include <limits>

#include "core/chat/compare.h"
#include "core/chat/format_text.h"
#include "core/chat/machine.h"
#include "core/chat/print.h"

namespace quire::chat {
namespace {

std::string_view op_text(BinaryOp op) {
  switch (op) {
    case BinaryOp::add:
      return "+";
    case BinaryOp::subtract:
      return "-";
    case BinaryOp::multiply:
      return "*";
    case BinaryOp::divide:
      return "/";
    case BinaryOp::floor_divide:
      return "//";
    case BinaryOp::modulo:
      return "%";
    case BinaryOp::power:
      break;
  }
  return "**";
}

[[noreturn]] void fail_operands(Machine& machine, BinaryOp op, const Value& left, const Value& right) {
  machine.fail("{} and {} cannot be operands of '{}'", type_name(left), type_name(right), op_text(op));
}

[[noreturn]] void fail_integer(Machine& machine) {
  machine.fail("the result of whole-number arithmetic exceeds 64 bits");
}

int64_t floor_quotient(int64_t left, int64_t right) {
  const int64_t quotient = left / right;
  return (left % right != 0) && ((left < 0) != (right < 0)) ? quotient - 1 : quotient;
}

double floor_remainder(double left, double right) {
  const double remainder = std::fmod(left, right);
  if (remainder == 0.0) return std::copysign(0.0, right);
  return (remainder < 0) != (right < 0) ? remainder + right : remainder;
}

int64_t integer_power(Machine& machine, int64_t base, int64_t exponent) {
  int64_t result = 1;
  while (exponent > 0) {
    machine.step();
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) fail_integer(machine);
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) fail_integer(machine);
  }
  return result;
}

Value integer_result(Machine& machine, BinaryOp op, int64_t left, int64_t right) {
  int64_t result = 0;
  bool overflow = false;
  const bool divides = op == BinaryOp::divide || op == BinaryOp::floor_divide || op == BinaryOp::modulo;
  if (divides && right == 0) machine.fail("division by zero");
  switch (op) {
    case BinaryOp::add:
      overflow = __builtin_add_overflow(left, right, &result);
      break;
    case BinaryOp::subtract:
      overflow = __builtin_sub_overflow(left, right, &result);
      break;
    case BinaryOp::multiply:
      overflow = __builtin_mul_overflow(left, right, &result);
      break;
    case BinaryOp::divide:
      return Value(static_cast<double>(left) / static_cast<double>(right));
    case BinaryOp::floor_divide:
      overflow = right == -1 && left == std::numeric_limits<int64_t>::min();
      if (!overflow) result = floor_quotient(left, right);
      break;
    case BinaryOp::modulo:
      if (right != -1) result = left - floor_quotient(left, right) * right;
      break;
    case BinaryOp::power:
      if (right < 0) return Value(std::pow(static_cast<double>(left), static_cast<double>(right)));
      result = integer_power(machine, left, right);
      break;
  }
  if (overflow) fail_integer(machine);
  return Value(result);
}

Value real_result(Machine& machine, BinaryOp op, double left, double right) {
  const bool divides = op == BinaryOp::divide || op == BinaryOp::floor_divide || op == BinaryOp::modulo;
  if (divides && right == 0.0) machine.fail("division by zero");
  switch (op) {
    case BinaryOp::add:
      return Value(left + right);
    case BinaryOp::subtract:
      return Value(left - right);
    case BinaryOp::multiply:
      return Value(left * right);
    case BinaryOp::divide:
      return Value(left / right);
    case BinaryOp::floor_divide:
      return Value(std::floor((left - floor_remainder(left, right)) / right + 0.5));
    case BinaryOp::modulo:
      return Value(floor_remainder(left, right));
    case BinaryOp::power:
      break;
  }
  return Value(std::pow(left, right));
}

Value number_result(Machine& machine, BinaryOp op, const Value& left, const Value& right) {
  const bool content = left.is_content() || right.is_content();
  const Value result = left.is_integer() && right.is_integer()
                           ? integer_result(machine, op, left.integer(), right.integer())
                           : real_result(machine, op, left.number(), right.number());
  return result.as_content(content);
}

Value joined_lists(Machine& machine, const List& left, const List& right, bool content) {
  machine.take_bytes((left.items.size() + right.items.size()) * sizeof(Value));
  std::vector<Value> items = left.items;
  items.insert(items.end(), right.items.begin(), right.items.end());
  return Value(machine.make<List>(std::move(items), left.is_tuple)).as_content(content);
}

// Returns the size of a repeated value; checks it before anything is allocated.
uint64_t repeated_size(Machine& machine, uint64_t size, int64_t count) {
  uint64_t total = 0;
  if (count <= 0) return 0;
  if (__builtin_mul_overflow(size, static_cast<uint64_t>(count), &total)) machine.fail_limit("memory");
  return total;
}

Value repeated_text(Machine& machine, const Text& text, int64_t count) {
  machine.check_text_bytes(repeated_size(machine, text.bytes().size(), count));
  TextBuilder builder;
  if (!text.bytes().empty()) {
    for (int64_t i = 0; i < count; ++i) {
      machine.step();
      builder.append(text);
    }
  }
  return machine.text(builder, text.is_markup());
}

Value repeated_list(Machine& machine, const List& list, int64_t count, bool content) {
  machine.take_bytes(repeated_size(machine, list.items.size() * sizeof(Value), count));
  std::vector<Value> items;
  if (!list.items.empty()) {
    for (int64_t i = 0; i < count; ++i) items.insert(items.end(), list.items.begin(), list.items.end());
  }
  return Value(machine.make<List>(std::move(items), list.is_tuple)).as_content(content);
}

Value multiplied(Machine& machine, const Value& left, const Value& right) {
  if (right.is_integer()) {
    if (left.is_text()) return repeated_text(machine, left.text(), right.integer());
    if (const auto* list = left.as<List>()) {
      return repeated_list(machine, *list, right.integer(), left.is_content());
    }
  } else if (left.is_integer()) {
    return multiplied(machine, right, left);
  }
  fail_operands(machine, BinaryOp::multiply, left, right);
}

std::string_view entity_of(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '\'':
      return "&#39;";
    case '"':
      return "&#34;";
    default:
      return {};
  }
}

}  // namespace

Value escape_markup(Machine& machine, const Value& value) {
  if (value.is_text() && value.text().is_markup()) return value;
  const Value plain = str_of(machine, value);
  const std::string& bytes = plain.text().bytes();
  TextBuilder builder;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const std::string_view entity = entity_of(bytes[i]);
    if (entity.empty()) {
      builder.append(plain.text(), i, i + 1);
    } else {
      builder.append_changed(plain.text(), i, entity);
    }
  }
  return machine.text(builder, true);
}

Value join_texts(Machine& machine, const Value& left, const Value& right) {
  const bool is_markup = left.text().is_markup() || right.text().is_markup();
  machine.check_text_bytes(left.text().bytes().size() + right.text().bytes().size());
  TextBuilder builder;
  builder.append((is_markup ? escape_markup(machine, left) : left).text());
  builder.append((is_markup ? escape_markup(machine, right) : right).text());
  return machine.text(builder, is_markup);
}

Value apply_binary(Machine& machine, BinaryOp op, const Value& left, const Value& right) {
  if (left.is_number() && right.is_number()) return number_result(machine, op, left, right);
  if (op == BinaryOp::modulo && left.is_text()) return format_percent(machine, left, right);
  if (left.is_undefined()) machine.fail_undefined(left);
  if (right.is_undefined()) machine.fail_undefined(right);
  if (op == BinaryOp::multiply) return multiplied(machine, left, right);
  if (op != BinaryOp::add) fail_operands(machine, op, left, right);
  if (left.is_text() && right.is_text()) return join_texts(machine, left, right);
  const auto* left_list = left.as<List>();
  const auto* right_list = right.as<List>();
  if (left_list == nullptr || right_list == nullptr || left_list->is_tuple != right_list->is_tuple) {
    fail_operands(machine, op, left, right);
  }
  return joined_lists(machine, *left_list, *right_list, left.is_content() && right.is_content());
}

Value apply_unary(Machine& machine, UnaryOp op, const Value& operand) {
  if (op == UnaryOp::negate) return Value(!is_true(operand));
  if (operand.is_undefined()) machine.fail_undefined(operand);
  if (!operand.is_number()) machine.fail("a sign cannot be applied to {}", type_name(operand));
  const bool content = operand.is_content();
  if (operand.is_real()) {
    return Value(op == UnaryOp::minus ? -operand.number() : operand.number()).as_content(content);
  }
  if (op == UnaryOp::plus) return Value(operand.integer()).as_content(content);
  if (operand.integer() == std::numeric_limits<int64_t>::min()) fail_integer(machine);
  return Value(-operand.integer()).as_content(content);
}

bool apply_compare(Machine& machine, CompareOp op, const Value& left, const Value& right) {
  switch (op) {
    case CompareOp::equal:
      return equals(machine, left, right);
    case CompareOp::not_equal:
      return !equals(machine, left, right);
    case CompareOp::less:
      return is_less(machine, left, right);
    case CompareOp::greater:
      return is_less(machine, right, left);
    case CompareOp::less_equal:
      return is_less(machine, left, right) ||
             (order_of(machine, left, right) == 0 && equals(machine, left, right));
    case CompareOp::greater_equal:
      return is_less(machine, right, left) ||
             (order_of(machine, left, right) == 0 && equals(machine, left, right));
    case CompareOp::in:
      return contains(machine, right, left);
    case CompareOp::not_in:
      break;
  }
  return !contains(machine, right, left);
}

}  // namespace quire::chat
