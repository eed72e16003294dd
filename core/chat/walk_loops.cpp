// For loops.
#include "core/chat/compare.h"
#include "core/chat/tree_walk.h"

namespace quire::chat {

// The items that pass the test of a loop. They are computed on demand, in order.
class TreeWalk::TestedItems final : public Iterator {
 public:
  TestedItems(TreeWalk& walk, const ForStatement& loop, Iterator& source)
      : walk_(walk), loop_(loop), source_(source), activation_(walk.activation_) {}

  bool next(Machine& machine, Value& out) override {
    const ScopedValue<Activation*> running(walk_.activation_, activation_);
    while (source_.next(machine, out)) {
      machine.step();
      walk_.enter(loop_.filter.scope);
      walk_.assign(*loop_.filter.target, out);
      if (is_true(walk_.evaluate(*loop_.filter.test))) return true;
    }
    return false;
  }

 private:
  TreeWalk& walk_;
  const ForStatement& loop_;
  Iterator& source_;
  Activation* activation_;
};

class TreeWalk::Recursion final : public Object, public LoopRecursion {
 public:
  Recursion(TreeWalk& walk, const ForStatement& loop, Activation* outer)
      : Object(ObjectType::callable), walk_(walk), loop_(loop), outer_(outer) {}
  Value render(const Value& items, int64_t depth0) override {
    const ScopedValue<Activation*> running(
        walk_.activation_, &walk_.machine_.make<HeapActivation>(loop_.function, outer_)->activation);
    return walk_.captured([&] { walk_.run_loop(loop_, items, depth0, this); });
  }

 private:
  TreeWalk& walk_;
  const ForStatement& loop_;
  Activation* outer_;
};

Flow TreeWalk::execute(const ForStatement& loop, const Position& position) {
  const Value items = evaluate(*loop.items);
  machine_.set_position(position);
  if (!loop.is_recursive) return run_loop(loop, items, 0, nullptr);
  write(machine_.make<Recursion>(*this, loop, activation_)->render(items, 0));
  return Flow::normal;
}

Flow TreeWalk::run_loop(const ForStatement& loop, const Value& items, int64_t depth0,
                        LoopRecursion* recursion) {
  const Machine::Level level(machine_);
  Iterator* source = &iterate(machine_, items);
  if (loop.filter.test != nullptr) source = machine_.make<TestedItems>(*this, loop, *source);
  Loop* variable = nullptr;
  if (loop.loop_idx) {
    const Value all = loop.filter.test != nullptr ? Value(source) : items;
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

Flow TreeWalk::run_body(const ForStatement& loop, const Value& item, Loop* variable) {
  machine_.step();
  if (variable != nullptr) activation_->slots[*loop.loop_idx] = Value(variable);
  assign(*loop.target, item);
  enter(loop.scope);
  return execute(loop.body);
}

}  // namespace quire::chat
