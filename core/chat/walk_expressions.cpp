// Expressions, calls and filters.
#include "core/chat/builtins.h"
#include "core/chat/compare.h"
#include "core/chat/operators.h"
#include "core/chat/print.h"
#include "core/chat/tree_walk.h"

namespace quire::chat {

Value TreeWalk::evaluate(const Expr& expr) {
  if (const auto* literal = std::get_if<LiteralExpr>(&expr.node)) return literal->value;
  if (const auto* name = std::get_if<NameExpr>(&expr.node)) return evaluate(*name, expr);
  const Machine::Level level(machine_);
  machine_.step();
  return std::visit([&](const auto& node) { return evaluate(node, expr); }, expr.node);
}

Value TreeWalk::evaluate(const LiteralExpr& literal, const Expr&) {
  return literal.value;
}

Value TreeWalk::evaluate(const NameExpr& name, const Expr&) {
  const Value& value = slot(name.slot);
  if (value.is_undefined() && value.text_ref() == nullptr && value.absence() == Absence::variable) {
    return Value::absent(Absence::variable, name.text);
  }
  return value;
}

Value TreeWalk::evaluate(const SequenceExpr& sequence, const Expr&) {
  std::vector<Value> items;
  items.reserve(sequence.items.size());
  for (const Expr* item : sequence.items) items.push_back(evaluate(*item));
  return Value(machine_.make_list(std::move(items), sequence.is_tuple));
}

Value TreeWalk::evaluate(const DictExpr& literal, const Expr& expr) {
  Dict* dict = machine_.make<Dict>();
  for (const auto& [key, value] : literal.entries) {
    const Value key_value = evaluate(*key);
    Value entry = evaluate(*value);
    machine_.set_position(expr.position);
    dict->set(machine_, key_value, std::move(entry));
  }
  return Value(dict);
}

Value TreeWalk::evaluate(const UnaryExpr& unary, const Expr& expr) {
  const Value operand = evaluate(*unary.operand);
  machine_.set_position(expr.position);
  return apply_unary(machine_, unary.op, operand);
}

Value TreeWalk::evaluate(const BinaryExpr& binary, const Expr& expr) {
  const Value left = evaluate(*binary.left);
  const Value right = evaluate(*binary.right);
  machine_.set_position(expr.position);
  return apply_binary(machine_, binary.op, left, right);
}

Value TreeWalk::evaluate(const LogicExpr& logic, const Expr&) {
  const Value left = evaluate(*logic.left);
  return is_true(left) == logic.is_and ? evaluate(*logic.right) : left;
}

Value TreeWalk::evaluate(const CompareExpr& compare, const Expr& expr) {
  Value left = evaluate(*compare.first);
  for (const auto& [op, operand] : compare.rest) {
    const Value right = evaluate(*operand);
    machine_.set_position(expr.position);
    if (!apply_compare(machine_, op, left, right)) return Value(false);
    left = right;
  }
  return Value(true);
}

Value TreeWalk::evaluate(const ConcatExpr& concat, const Expr& expr) {
  TextBuilder builder;
  for (const Expr* item : concat.items) {
    const Value value = evaluate(*item);
    machine_.set_position(expr.position);
    append_str(machine_, builder, value);
    machine_.check_text_bytes(builder.num_bytes());
  }
  return machine_.text(builder);
}

Value TreeWalk::evaluate(const ConditionalExpr& conditional, const Expr&) {
  if (is_true(evaluate(*conditional.test))) return evaluate(*conditional.then);
  return evaluate_or_undefined(conditional.otherwise);
}

Value TreeWalk::evaluate(const AttributeExpr& attribute, const Expr& expr) {
  const Value object = evaluate(*attribute.object);
  machine_.set_position(expr.position);
  return attribute_of(machine_, object, attribute.name);
}

Value TreeWalk::evaluate(const SubscriptExpr& subscript, const Expr& expr) {
  const Value object = evaluate(*subscript.object);
  const Value key = evaluate(*subscript.key);
  machine_.set_position(expr.position);
  return item_of(machine_, object, key);
}

Value TreeWalk::evaluate(const SliceExpr& slice, const Expr& expr) {
  const Value object = evaluate(*slice.object);
  const Value start = evaluate_or_undefined(slice.start);
  const Value stop = evaluate_or_undefined(slice.stop);
  const Value step = evaluate_or_undefined(slice.step);
  machine_.set_position(expr.position);
  return slice_of(machine_, object, start, stop, step);
}

void TreeWalk::evaluate_arguments(const CallArguments& from, Arguments& arguments) {
  for (const Expr* argument : from.positional) arguments.positional.push_back(evaluate(*argument));
  for (const auto& [name, argument] : from.named) arguments.named.emplace_back(name, evaluate(*argument));
  if (from.more_positional != nullptr) {
    for (Value& value : list_of(machine_, evaluate(*from.more_positional))) {
      arguments.positional.push_back(std::move(value));
    }
  }
  if (from.more_named == nullptr) return;
  const Value more = evaluate(*from.more_named);
  const auto* dict = more.as<Dict>();
  if (dict == nullptr) machine_.fail("the value after ** in a call must be a mapping");
  for (const Dict::Entry& entry : dict->entries) {
    if (!entry.key.is_text()) machine_.fail("the keys of the mapping after ** must be strings");
    arguments.named.emplace_back(entry.key.text().bytes(), entry.value);
  }
}

Value TreeWalk::evaluate(const CallExpr& call, const Expr& expr) {
  Arguments arguments;
  return called(call, expr, arguments);
}

Value TreeWalk::called(const CallExpr& call, const Expr& expr, Arguments& more) {
  const Value callee = evaluate(*call.callee);
  Arguments arguments;
  evaluate_arguments(call.arguments, arguments);
  for (auto& named : more.named) arguments.named.push_back(std::move(named));
  machine_.set_position(expr.position);
  return call_value(machine_, callee, arguments);
}

Value TreeWalk::evaluate(const FilterExpr& filter, const Expr& expr) {
  return apply_filter(filter, expr, evaluate(*filter.subject));
}

Value TreeWalk::apply_filter(const FilterExpr& filter, const Expr& expr, const Value& subject) {
  Arguments arguments;
  arguments.positional.push_back(subject);
  evaluate_arguments(filter.arguments, arguments);
  machine_.set_position(expr.position);
  if (filter.builtin == nullptr) machine_.fail("there is no filter named '{}'", printable(filter.name));
  return filter.builtin(machine_, arguments);
}

Value TreeWalk::filtered(const Expr& expr, const Value& value) {
  const auto& filter = std::get<FilterExpr>(expr.node);
  return apply_filter(filter, expr, filter.subject == nullptr ? value : filtered(*filter.subject, value));
}

Value TreeWalk::evaluate(const TestExpr& test, const Expr& expr) {
  Arguments arguments;
  arguments.positional.push_back(evaluate(*test.subject));
  evaluate_arguments(test.arguments, arguments);
  machine_.set_position(expr.position);
  if (test.builtin == nullptr) machine_.fail("there is no test named '{}'", printable(test.name));
  return test.builtin(machine_, arguments);
}

}  // namespace quire::chat
