// Long file: evaluates every kind of statement and expression.
#include "core/chat/interpreter.h"

#include <algorithm>

#include "core/chat/builtins.h"
#include "core/chat/compare.h"
#include "core/chat/loop.h"
#include "core/chat/operators.h"
#include "core/chat/print.h"
#include "core/chat/syntax_walk.h"

namespace quire::chat {
namespace {

enum class Flow { normal, broken, continued };

// The variables of one function call.
struct Activation {
  Activation(const FunctionFrame& frame, Activation* the_outer) : slots(frame.num_slots), outer(the_outer) {}
  std::vector<Value> slots;
  Activation* outer;
};

// An activation that outlives its call, because functions defined in it still use it.
struct HeapActivation final : Object {
  HeapActivation(const FunctionFrame& frame, Activation* outer)
      : Object(ObjectType::callable), activation(frame, outer) {}
  Activation activation;
};

class Interpreter final {
 public:
  Interpreter(Machine& machine, const Dict& inputs) : machine_(machine), inputs_(inputs) {}

  RenderedText run(const Syntax& syntax) {
    TextBuilder output;
    root_ = out_ = &output;
    Activation activation(syntax.function, nullptr);
    activation_ = &activation;
    enter(syntax.scope);
    execute(syntax.body);
    return {output.take(), std::move(generated_)};
  }

 private:
  class Macro;
  class TestedItems;
  class Recursion;

  // Guard that sets a variable to a value and restores the old value at the end of the scope.
  template <typename T>
  class ScopedValue {
   public:
    ScopedValue(T& place, T value) : place_(place), before_(std::exchange(place, value)) {}
    ~ScopedValue() { place_ = before_; }
    ScopedValue(const ScopedValue&) = delete;
    ScopedValue& operator=(const ScopedValue&) = delete;

   private:
    T& place_;
    T before_;
  };

  // --- Variables

  Value& slot(const Slot& where) {
    Activation* activation = activation_;
    for (uint32_t i = 0; i < where.num_out; ++i) activation = activation->outer;
    return activation->slots[where.idx];
  }

  Value look_up(const std::string& name) {
    const Value* given = inputs_.find(machine_, name);
    if (given != nullptr) return *given;
    const Builtin builtin = find_global(name);
    return builtin == nullptr ? Value() : Value(machine_.make<Function>(builtin));
  }

  void enter(const Scope& scope) {
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

  void assign(const Expr& target, const Value& value) {
    if (const auto* name = std::get_if<NameExpr>(&target.node)) {
      slot(name->slot) = value;
    } else if (const auto* tuple = std::get_if<SequenceExpr>(&target.node)) {
      unpack(target, *tuple, value);
    } else {
      assign_member(target, std::get<AttributeExpr>(target.node), value);
    }
  }

  void unpack(const Expr& target, const SequenceExpr& tuple, const Value& value) {
    machine_.set_position(target.position);
    const std::vector<Value> items = list_of(machine_, value);
    if (items.size() != tuple.items.size()) {
      machine_.fail("{} values cannot be unpacked into {} names", items.size(), tuple.items.size());
    }
    for (size_t i = 0; i < items.size(); ++i) assign(*tuple.items[i], items[i]);
  }

  void assign_member(const Expr& target, const AttributeExpr& member, const Value& value) {
    const Value object = evaluate(*member.object);
    machine_.set_position(target.position);
    auto* space = object.as<Namespace>();
    if (space == nullptr)
      machine_.fail("attributes can be set only on a namespace, not on {}", type_name(object));
    space->members.set(machine_, Value(member.name), value);
  }

  // --- Output

  // Returns the text that `render` writes as a value.
  template <typename Render>
  Value captured(Render&& render) {
    TextBuilder builder;
    {
      const ScopedValue<TextBuilder*> output(out_, &builder);
      render();
    }
    return machine_.text(builder);
  }

  void write(const Value& value) {
    const size_t before = out_->num_bytes();
    append_str(machine_, *out_, value);
    machine_.step_bytes(out_->num_bytes() - before);
    machine_.check_output_bytes(out_->num_bytes());
  }

  size_t num_root_chars() {
    const std::string_view all = root_->bytes();
    num_counted_chars_ += count_chars(all.substr(num_counted_bytes_));
    num_counted_bytes_ = all.size();
    return num_counted_chars_;
  }

  // --- Statements

  Flow execute(const Body& body) {
    for (const Statement* statement : body) {
      const Flow flow = execute(*statement);
      if (flow != Flow::normal) return flow;
    }
    return Flow::normal;
  }

  Flow execute(const Statement& statement) {
    const Machine::Level level(machine_);
    machine_.step();
    return std::visit([&](const auto& node) { return execute(node, statement.position); }, statement.node);
  }

  Flow execute(const OutputStatement& output, const Position&) {
    for (const Expr* item : output.items) {
      const Value value = evaluate(*item);
      machine_.set_position(item->position);
      write(value);
    }
    return Flow::normal;
  }

  Flow execute(const SetStatement& set, const Position&) {
    assign(*set.target, evaluate(*set.value));
    return Flow::normal;
  }

  Flow execute(const SetBlockStatement& block, const Position&) {
    enter(block.scope);
    Flow flow = Flow::normal;
    Value value = captured([&] { flow = execute(block.body); });
    if (flow != Flow::normal) return flow;
    if (block.filter != nullptr) value = filtered(*block.filter, value);
    assign(*block.target, value);
    return Flow::normal;
  }

  Flow execute(const FilterStatement& block, const Position&) {
    enter(block.scope);
    Flow flow = Flow::normal;
    const Value value = captured([&] { flow = execute(block.body); });
    if (flow == Flow::normal) write(filtered(*block.filter, value));
    return flow;
  }

  Flow execute(const IfStatement& choice, const Position&) {
    for (const auto& [test, body] : choice.branches) {
      if (is_true(evaluate(*test))) return execute(body);
    }
    return execute(choice.otherwise);
  }

  Flow execute(const WithStatement& with, const Position&) {
    // The values are evaluated in the enclosing scope.
    enter(with.scope);
    for (const auto& [target, value] : with.values) assign(*target, evaluate(*value));
    return execute(with.body);
  }

  Flow execute(const BreakStatement&, const Position&) { return Flow::broken; }
  Flow execute(const ContinueStatement&, const Position&) { return Flow::continued; }

  Flow execute(const MacroStatement& statement, const Position&);
  Flow execute(const CallStatement& statement, const Position& position);
  Flow execute(const ForStatement& loop, const Position& position);
  Flow run_loop(const ForStatement& loop, const Value& items, int64_t depth0, LoopRecursion* recursion);
  Flow run_body(const ForStatement& loop, const Value& item, Loop* variable);
  Value render_recursively(const ForStatement& loop, const Value& items, int64_t depth0, Activation* outer);

  // --- Expressions

  Value evaluate(const Expr& expr) {
    if (const auto* literal = std::get_if<LiteralExpr>(&expr.node)) return literal->value;
    if (const auto* name = std::get_if<NameExpr>(&expr.node)) return evaluate(*name, expr);
    const Machine::Level level(machine_);
    machine_.step();
    return std::visit([&](const auto& node) { return evaluate(node, expr); }, expr.node);
  }

  Value maybe(const Expr* expr) { return expr == nullptr ? Value() : evaluate(*expr); }

  Value evaluate(const LiteralExpr& literal, const Expr&) { return literal.value; }

  Value evaluate(const NameExpr& name, const Expr&) {
    const Value& value = slot(name.slot);
    if (value.is_undefined() && value.text_ref() == nullptr && value.absence() == Absence::variable) {
      return Value::absent(Absence::variable, name.text);
    }
    return value;
  }

  Value evaluate(const SequenceExpr& sequence, const Expr&) {
    std::vector<Value> items;
    items.reserve(sequence.items.size());
    for (const Expr* item : sequence.items) items.push_back(evaluate(*item));
    return Value(machine_.make_list(std::move(items), sequence.is_tuple));
  }

  Value evaluate(const DictExpr& literal, const Expr& expr) {
    Dict* dict = machine_.make<Dict>();
    for (const auto& [key, value] : literal.entries) {
      const Value key_value = evaluate(*key);
      Value entry = evaluate(*value);
      machine_.set_position(expr.position);
      dict->set(machine_, key_value, std::move(entry));
    }
    return Value(dict);
  }

  Value evaluate(const UnaryExpr& unary, const Expr& expr) {
    const Value operand = evaluate(*unary.operand);
    machine_.set_position(expr.position);
    return apply_unary(machine_, unary.op, operand);
  }

  Value evaluate(const BinaryExpr& binary, const Expr& expr) {
    const Value left = evaluate(*binary.left);
    const Value right = evaluate(*binary.right);
    machine_.set_position(expr.position);
    return apply_binary(machine_, binary.op, left, right);
  }

  Value evaluate(const LogicExpr& logic, const Expr&) {
    const Value left = evaluate(*logic.left);
    return is_true(left) == logic.is_and ? evaluate(*logic.right) : left;
  }

  Value evaluate(const CompareExpr& compare, const Expr& expr) {
    Value left = evaluate(*compare.first);
    for (const auto& [op, operand] : compare.rest) {
      const Value right = evaluate(*operand);
      machine_.set_position(expr.position);
      if (!apply_compare(machine_, op, left, right)) return Value(false);
      left = right;
    }
    return Value(true);
  }

  Value evaluate(const ConcatExpr& concat, const Expr& expr) {
    TextBuilder builder;
    for (const Expr* item : concat.items) {
      const Value value = evaluate(*item);
      machine_.set_position(expr.position);
      append_str(machine_, builder, value);
      machine_.check_text_bytes(builder.num_bytes());
    }
    return machine_.text(builder);
  }

  Value evaluate(const ConditionalExpr& conditional, const Expr&) {
    if (is_true(evaluate(*conditional.test))) return evaluate(*conditional.then);
    return maybe(conditional.otherwise);
  }

  Value evaluate(const AttributeExpr& attribute, const Expr& expr) {
    const Value object = evaluate(*attribute.object);
    machine_.set_position(expr.position);
    return attribute_of(machine_, object, attribute.name);
  }

  Value evaluate(const SubscriptExpr& subscript, const Expr& expr) {
    const Value object = evaluate(*subscript.object);
    const Value key = evaluate(*subscript.key);
    machine_.set_position(expr.position);
    return item_of(machine_, object, key);
  }

  Value evaluate(const SliceExpr& slice, const Expr& expr) {
    const Value object = evaluate(*slice.object);
    const Value start = maybe(slice.start);
    const Value stop = maybe(slice.stop);
    const Value step = maybe(slice.step);
    machine_.set_position(expr.position);
    return slice_of(machine_, object, start, stop, step);
  }

  void evaluate_arguments(const CallArguments& from, Arguments& arguments) {
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

  Value evaluate(const CallExpr& call, const Expr& expr) {
    Arguments arguments;
    return called(call, expr, arguments);
  }

  // Evaluates a call with its own arguments, followed by the named arguments of `more`.
  Value called(const CallExpr& call, const Expr& expr, Arguments& more) {
    const Value callee = evaluate(*call.callee);
    Arguments arguments;
    evaluate_arguments(call.arguments, arguments);
    for (auto& named : more.named) arguments.named.push_back(std::move(named));
    machine_.set_position(expr.position);
    return call_value(machine_, callee, arguments);
  }

  Value evaluate(const FilterExpr& filter, const Expr& expr) {
    return apply_filter(filter, expr, evaluate(*filter.subject));
  }

  Value apply_filter(const FilterExpr& filter, const Expr& expr, const Value& subject) {
    Arguments arguments;
    arguments.positional.push_back(subject);
    evaluate_arguments(filter.arguments, arguments);
    machine_.set_position(expr.position);
    if (filter.builtin == nullptr) machine_.fail("there is no filter named '{}'", printable(filter.name));
    return filter.builtin(machine_, arguments);
  }

  // Applies a chain of filters to `value`; the first filter of the chain has no subject of its own.
  Value filtered(const Expr& expr, const Value& value) {
    const auto& filter = std::get<FilterExpr>(expr.node);
    return apply_filter(filter, expr, filter.subject == nullptr ? value : filtered(*filter.subject, value));
  }

  Value evaluate(const TestExpr& test, const Expr& expr) {
    Arguments arguments;
    arguments.positional.push_back(evaluate(*test.subject));
    evaluate_arguments(test.arguments, arguments);
    machine_.set_position(expr.position);
    if (test.builtin == nullptr) machine_.fail("there is no test named '{}'", printable(test.name));
    return test.builtin(machine_, arguments);
  }

  Machine& machine_;
  const Dict& inputs_;
  Activation* activation_ = nullptr;
  TextBuilder* out_ = nullptr;
  TextBuilder* root_ = nullptr;
  size_t num_counted_bytes_ = 0;
  size_t num_counted_chars_ = 0;
  std::vector<CharRange> generated_;
};

// --- Macros

class Interpreter::Macro final : public Callable {
 public:
  Macro(Interpreter& interpreter, const MacroFunction& function, Activation* outer)
      : interpreter_(interpreter), function_(function), outer_(outer) {}

  Value call(Machine& machine, Arguments& arguments) override {
    const Machine::Level level(machine);
    if (function_.function.has_closures) {
      return run(machine.make<HeapActivation>(function_.function, outer_)->activation, arguments);
    }
    machine.step(function_.function.num_slots / 4);
    Activation activation(function_.function, outer_);
    return run(activation, arguments);
  }

  Value attribute(Machine& machine, std::string_view name) override {
    if (name == "name") return machine.text(function_.name);
    if (name == "arguments") {
      std::vector<Value> names;
      for (const std::string& parameter : function_.parameters) names.push_back(machine.text(parameter));
      return Value(machine.make_list(std::move(names), true));
    }
    if (name == "caller") return Value(function_.uses_caller);
    if (name == "catch_kwargs") return Value(function_.uses_kwargs);
    if (name == "catch_varargs") return Value(function_.uses_varargs);
    return Callable::attribute(machine, name);
  }

 private:
  Value run(Activation& activation, Arguments& arguments) {
    const Position caller_position = interpreter_.machine_.position();
    std::vector<bool> given(function_.parameters.size());
    bind(activation, arguments, given);
    const ScopedValue<Activation*> running(interpreter_.activation_, &activation);
    interpreter_.enter(function_.scope);
    fill_defaults(activation, given);
    const Value text = interpreter_.captured([&] { interpreter_.execute(function_.body); });
    interpreter_.machine_.set_position(caller_position);
    return text;
  }

  void bind(Activation& activation, Arguments& arguments, std::vector<bool>& given) {
    const size_t num_parameters = function_.parameters.size();
    const size_t num_bound = std::min(num_parameters, arguments.positional.size());
    for (size_t i = 0; i < num_bound; ++i) {
      activation.slots[function_.parameter_idx[i]] = arguments.positional[i];
      given[i] = true;
    }
    if (function_.uses_varargs) {
      const auto rest = arguments.positional.begin() + static_cast<std::ptrdiff_t>(num_bound);
      std::vector<Value> more(rest, arguments.positional.end());
      activation.slots[function_.varargs_idx] = Value(interpreter_.machine_.make_list(std::move(more), true));
    } else if (arguments.positional.size() > num_parameters) {
      interpreter_.machine_.fail("macro '{}' takes at most {} arguments", function_.name, num_parameters);
    }
    bind_named(activation, arguments, given);
  }

  void bind_named(Activation& activation, Arguments& arguments, std::vector<bool>& given) {
    Machine& machine = interpreter_.machine_;
    Dict* rest = function_.uses_kwargs ? machine.make<Dict>() : nullptr;
    if (function_.uses_caller) {
      activation.slots[function_.caller_idx] = Value::absent(Absence::variable, make_text("caller", true));
    }
    for (auto& [name, value] : arguments.named) {
      const auto found = std::find(function_.parameters.begin(), function_.parameters.end(), name);
      const auto idx = static_cast<size_t>(found - function_.parameters.begin());
      if (found != function_.parameters.end() && !given[idx]) {
        activation.slots[function_.parameter_idx[idx]] = value;
        given[idx] = true;
      } else if (function_.uses_caller && name == "caller") {
        activation.slots[function_.caller_idx] = value;
      } else if (rest != nullptr) {
        rest->set(machine, machine.text(name), value);
      } else {
        machine.fail("macro '{}' takes no argument '{}'", function_.name, printable(name));
      }
    }
    if (rest != nullptr) activation.slots[function_.kwargs_idx] = Value(rest);
  }

  void fill_defaults(Activation& activation, const std::vector<bool>& given) {
    const size_t num_parameters = function_.parameters.size();
    const size_t first_default = num_parameters - function_.defaults.size();
    for (size_t i = 0; i < num_parameters; ++i) {
      if (given[i]) continue;
      activation.slots[function_.parameter_idx[i]] =
          i >= first_default ? interpreter_.evaluate(*function_.defaults[i - first_default])
                             : Value::absent(Absence::parameter, make_text(function_.parameters[i], true));
    }
  }

  Interpreter& interpreter_;
  const MacroFunction& function_;
  Activation* outer_;
};

Flow Interpreter::execute(const MacroStatement& statement, const Position&) {
  assign(*statement.target, Value(machine_.make<Macro>(*this, statement.macro, activation_)));
  return Flow::normal;
}

Flow Interpreter::execute(const CallStatement& statement, const Position& position) {
  auto* caller = machine_.make<Macro>(*this, statement.macro, activation_);
  Arguments arguments;
  if (statement.call != nullptr) {
    arguments.named.emplace_back("caller", Value(caller));
    const Value text = called(std::get<CallExpr>(statement.call->node), *statement.call, arguments);
    write(text);
    return Flow::normal;
  }
  machine_.set_position(position);
  const Value text = caller->call(machine_, arguments);
  const size_t begin = num_root_chars();
  generated_.push_back({begin, begin + text.text().num_chars()});
  write(text);
  return Flow::normal;
}

// --- Loops

// The items that pass the test of a loop. They are computed on demand, in order.
class Interpreter::TestedItems final : public Iterator {
 public:
  TestedItems(Interpreter& interpreter, const ForStatement& loop, Iterator& source)
      : interpreter_(interpreter), loop_(loop), source_(source), activation_(interpreter.activation_) {}

  bool next(Machine& machine, Value& out) override {
    const ScopedValue<Activation*> running(interpreter_.activation_, activation_);
    while (source_.next(machine, out)) {
      machine.step();
      interpreter_.enter(loop_.test_scope);
      interpreter_.assign(*loop_.test_target, out);
      if (is_true(interpreter_.evaluate(*loop_.test))) return true;
    }
    return false;
  }

 private:
  Interpreter& interpreter_;
  const ForStatement& loop_;
  Iterator& source_;
  Activation* activation_;
};

class Interpreter::Recursion final : public Object, public LoopRecursion {
 public:
  Recursion(Interpreter& interpreter, const ForStatement& loop, Activation* outer)
      : Object(ObjectType::callable), interpreter_(interpreter), loop_(loop), outer_(outer) {}
  Value render(const Value& items, int64_t depth0) override {
    const ScopedValue<Activation*> running(
        interpreter_.activation_,
        &interpreter_.machine_.make<HeapActivation>(loop_.function, outer_)->activation);
    return interpreter_.captured([&] { interpreter_.run_loop(loop_, items, depth0, this); });
  }

 private:
  Interpreter& interpreter_;
  const ForStatement& loop_;
  Activation* outer_;
};

Flow Interpreter::execute(const ForStatement& loop, const Position& position) {
  const Value items = evaluate(*loop.items);
  machine_.set_position(position);
  if (!loop.is_recursive) return run_loop(loop, items, 0, nullptr);
  write(machine_.make<Recursion>(*this, loop, activation_)->render(items, 0));
  return Flow::normal;
}

Flow Interpreter::run_loop(const ForStatement& loop, const Value& items, int64_t depth0,
                           LoopRecursion* recursion) {
  const Machine::Level level(machine_);
  Iterator* source = &iterate(machine_, items);
  if (loop.test != nullptr) source = machine_.make<TestedItems>(*this, loop, *source);
  Loop* variable = nullptr;
  if (loop.uses_loop) {
    const Value all = loop.test != nullptr ? Value(source) : items;
    variable = machine_.make<Loop>(all, *source, depth0, recursion);
  }
  bool body_ended = false;
  Value item;
  while (variable != nullptr ? variable->advance(machine_, item) : source->next(machine_, item)) {
    const Flow flow = run_body(loop, item, variable);
    if (flow == Flow::normal) body_ended = true;  // otherwise Jinja runs the else branch
    if (flow == Flow::broken) break;
  }
  if (body_ended || loop.otherwise.empty()) return Flow::normal;
  enter(loop.otherwise_scope);
  return execute(loop.otherwise);
}

Flow Interpreter::run_body(const ForStatement& loop, const Value& item, Loop* variable) {
  machine_.step();
  if (variable != nullptr) activation_->slots[loop.loop_idx] = Value(variable);
  assign(*loop.target, item);
  enter(loop.scope);
  return execute(loop.body);
}

}  // namespace

RenderedText interpret(Machine& machine, const Syntax& syntax, const Dict& inputs) {
  return Interpreter(machine, inputs).run(syntax);
}

}  // namespace quire::chat
