#include "core/chat/interpreter.h"

#include "core/chat/builtins.h"
#include "core/chat/compare.h"
#include "core/chat/print.h"
#include "core/chat/tree_walk.h"

namespace quire::chat {

RenderedText TreeWalk::run(const Syntax& syntax) {
  TextBuilder output;
  root_ = out_ = &output;
  Activation activation(syntax.function, nullptr);
  activation_ = &activation;
  enter(syntax.scope);
  execute(syntax.body);
  return {output.take(), std::move(generated_)};
}

// --- Variables

Value TreeWalk::look_up(const std::string& name) {
  const Value* given = inputs_.find(machine_, name);
  if (given != nullptr) return *given;
  const Builtin builtin = find_global(name);
  return builtin == nullptr ? Value() : Value(machine_.make<Function>(builtin));
}

void TreeWalk::enter(const Scope& scope) {
  for (const Load& load : scope) {
    Value& variable = activation_->slots[load.idx];
    switch (load.kind) {
      case Load::Kind::look_up:
        variable = look_up(load.name);
        break;
      case Load::Kind::copy:
        variable = slot(load.from);
        break;
      case Load::Kind::undefine:
        variable = Value();
        break;
    }
  }
}

void TreeWalk::assign(const Expr& target, const Value& value) {
  if (const auto* name = std::get_if<NameExpr>(&target.node)) {
    slot(name->slot) = value;
  } else if (const auto* tuple = std::get_if<SequenceExpr>(&target.node)) {
    unpack(target, *tuple, value);
  } else {
    assign_member(target, std::get<AttributeExpr>(target.node), value);
  }
}

void TreeWalk::unpack(const Expr& target, const SequenceExpr& tuple, const Value& value) {
  machine_.set_position(target.position);
  const std::vector<Value> items = list_of(machine_, value);
  if (items.size() != tuple.items.size()) {
    machine_.fail("{} values cannot be unpacked into {} names", items.size(), tuple.items.size());
  }
  for (size_t i = 0; i < items.size(); ++i) assign(*tuple.items[i], items[i]);
}

void TreeWalk::assign_member(const Expr& target, const AttributeExpr& member, const Value& value) {
  const Value object = evaluate(*member.object);
  machine_.set_position(target.position);
  auto* space = object.as<Namespace>();
  if (space == nullptr)
    machine_.fail("attributes can be set only on a namespace, not on {}", type_name(object));
  space->members.set(machine_, Value(member.name), value);
}

// --- Output

void TreeWalk::write(const Value& value) {
  const size_t before = out_->num_bytes();
  append_str(machine_, *out_, value);
  machine_.step_bytes(out_->num_bytes() - before);
  machine_.check_output_bytes(out_->num_bytes());
}

size_t TreeWalk::num_root_chars() {
  const std::string_view all = root_->bytes();
  num_counted_chars_ += count_chars(all.substr(num_counted_bytes_));
  num_counted_bytes_ = all.size();
  return num_counted_chars_;
}

// --- Statements

Flow TreeWalk::execute(const Body& body) {
  for (const Statement* statement : body) {
    const Flow flow = execute(*statement);
    if (flow != Flow::normal) return flow;
  }
  return Flow::normal;
}

Flow TreeWalk::execute(const Statement& statement) {
  const Machine::Level level(machine_);
  machine_.step();
  return std::visit([&](const auto& node) { return execute(node, statement.position); }, statement.node);
}

Flow TreeWalk::execute(const OutputStatement& output, const Position&) {
  for (const Expr* item : output.items) {
    const Value value = evaluate(*item);
    machine_.set_position(item->position);
    write(value);
  }
  return Flow::normal;
}

Flow TreeWalk::execute(const SetStatement& set, const Position&) {
  assign(*set.target, evaluate(*set.value));
  return Flow::normal;
}

Flow TreeWalk::execute(const SetBlockStatement& block, const Position&) {
  enter(block.scope);
  Flow flow = Flow::normal;
  Value value = captured([&] { flow = execute(block.body); });
  if (flow != Flow::normal) return flow;
  if (block.filter != nullptr) value = filtered(*block.filter, value);
  assign(*block.target, value);
  return Flow::normal;
}

Flow TreeWalk::execute(const FilterStatement& block, const Position&) {
  enter(block.scope);
  Flow flow = Flow::normal;
  const Value value = captured([&] { flow = execute(block.body); });
  if (flow == Flow::normal) write(filtered(*block.filter, value));
  return flow;
}

Flow TreeWalk::execute(const IfStatement& choice, const Position&) {
  for (const auto& [test, body] : choice.branches) {
    if (is_true(evaluate(*test))) return execute(body);
  }
  return execute(choice.otherwise);
}

Flow TreeWalk::execute(const WithStatement& with, const Position&) {
  // The values are evaluated in the enclosing scope.
  enter(with.scope);
  for (const auto& [target, value] : with.values) assign(*target, evaluate(*value));
  return execute(with.body);
}

RenderedText interpret(Machine& machine, const Syntax& syntax, const Dict& inputs) {
  return TreeWalk(machine, inputs).run(syntax);
}

}  // namespace quire::chat
