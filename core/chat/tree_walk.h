// The walk of the interpreter over a syntax tree: the state and functions of one rendering. Statements,
// variables and output are in interpreter.cpp, the other parts in the files of their names.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/chat/interpreter.h"
#include "core/chat/loop.h"
#include "core/chat/machine.h"
#include "core/chat/syntax.h"

namespace quire::chat {

// The statement to run after one: the next, or one that a break or continue selects.
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

class TreeWalk final {
 public:
  TreeWalk(Machine& machine, const Dict& inputs) : machine_(machine), inputs_(inputs) {}

  RenderedText run(const Syntax& syntax);

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

  // Variables
  Value& slot(const Slot& where) {
    Activation* activation = activation_;
    for (uint32_t i = 0; i < where.num_out; ++i) activation = activation->outer;
    return activation->slots[where.idx];
  }
  Value look_up(const std::string& name);
  void enter(const Scope& scope);
  void assign(const Expr& target, const Value& value);
  void unpack(const Expr& target, const SequenceExpr& tuple, const Value& value);
  void assign_member(const Expr& target, const AttributeExpr& member, const Value& value);

  // Output
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
  void write(const Value& value);
  size_t num_root_chars();

  // Statements
  Flow execute(const Body& body);
  Flow execute(const Statement& statement);
  Flow execute(const OutputStatement& output, const Position& position);
  Flow execute(const SetStatement& set, const Position& position);
  Flow execute(const SetBlockStatement& block, const Position& position);
  Flow execute(const FilterStatement& block, const Position& position);
  Flow execute(const IfStatement& choice, const Position& position);
  Flow execute(const WithStatement& with, const Position& position);
  Flow execute(const BreakStatement&, const Position&) { return Flow::broken; }
  Flow execute(const ContinueStatement&, const Position&) { return Flow::continued; }

  // Macros, in walk_macros.cpp
  Flow execute(const MacroStatement& statement, const Position& position);
  Flow execute(const CallStatement& statement, const Position& position);

  // Loops, in walk_loops.cpp
  Flow execute(const ForStatement& loop, const Position& position);
  Flow run_loop(const ForStatement& loop, const Value& items, int64_t depth0, LoopRecursion* recursion);
  Flow run_body(const ForStatement& loop, const Value& item, Loop* variable);

  // Expressions, in walk_expressions.cpp
  Value evaluate(const Expr& expr);
  Value evaluate_or_undefined(const Expr* expr) { return expr == nullptr ? Value() : evaluate(*expr); }
  Value evaluate(const LiteralExpr& literal, const Expr& expr);
  Value evaluate(const NameExpr& name, const Expr& expr);
  Value evaluate(const SequenceExpr& sequence, const Expr& expr);
  Value evaluate(const DictExpr& literal, const Expr& expr);
  Value evaluate(const UnaryExpr& unary, const Expr& expr);
  Value evaluate(const BinaryExpr& binary, const Expr& expr);
  Value evaluate(const LogicExpr& logic, const Expr& expr);
  Value evaluate(const CompareExpr& compare, const Expr& expr);
  Value evaluate(const ConcatExpr& concat, const Expr& expr);
  Value evaluate(const ConditionalExpr& conditional, const Expr& expr);
  Value evaluate(const AttributeExpr& attribute, const Expr& expr);
  Value evaluate(const SubscriptExpr& subscript, const Expr& expr);
  Value evaluate(const SliceExpr& slice, const Expr& expr);
  Value evaluate(const CallExpr& call, const Expr& expr);
  Value evaluate(const FilterExpr& filter, const Expr& expr);
  Value evaluate(const TestExpr& test, const Expr& expr);
  void evaluate_arguments(const CallArguments& from, Arguments& arguments);
  // Evaluates a call with its own arguments, followed by the named arguments of `more`.
  Value called(const CallExpr& call, const Expr& expr, Arguments& more);
  Value apply_filter(const FilterExpr& filter, const Expr& expr, const Value& subject);
  // Applies a chain of filters to `value`; the first filter of the chain has no subject of its own.
  Value filtered(const Expr& expr, const Value& value);

  Machine& machine_;
  const Dict& inputs_;
  Activation* activation_ = nullptr;
  TextBuilder* out_ = nullptr;
  TextBuilder* root_ = nullptr;
  size_t num_counted_bytes_ = 0;
  size_t num_counted_chars_ = 0;
  std::vector<CharRange> generated_;
};

}  // namespace quire::chat
