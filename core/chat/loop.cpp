#include "core/chat/loop.h"

#include "core/chat/compare.h"
#include "core/chat/machine.h"

namespace quire::chat {
namespace {

// Returns the loop; these methods are bound only to loops.
Loop& loop_of(const Arguments& arguments) {
  return *static_cast<Loop*>(arguments.positional.front().object());
}

Value cycle(Machine& machine, Arguments& arguments) {
  const Loop& loop = loop_of(arguments);
  const size_t num_items = arguments.positional.size() - 1;
  if (num_items == 0) machine.fail("loop.cycle() takes at least one item");
  return arguments.positional[1 + static_cast<size_t>(loop.index0) % num_items];
}

Value changed(Machine& machine, Arguments& arguments) {
  Loop& loop = loop_of(arguments);
  std::vector<Value> values(arguments.positional.begin() + 1, arguments.positional.end());
  const Value now(machine.make_list(std::move(values), true));
  const bool differs = loop.last_changed.is_undefined() || !equals(machine, loop.last_changed, now);
  loop.last_changed = now;
  return Value(differs);
}

}  // namespace

bool Loop::advance(Machine& machine, Value& out) {
  const bool has = looked_ahead ? next_exists : source->next(machine, next);
  looked_ahead = false;
  if (!has) return false;
  ++index0;
  previous = current;
  current = next;
  out = current;
  return true;
}

bool Loop::has_next(Machine& machine) {
  if (!looked_ahead) {
    next_exists = source->next(machine, next);
    looked_ahead = true;
  }
  return next_exists;
}

int64_t Loop::length(Machine& machine) {
  if (known_length >= 0) return known_length;
  known_length =
      source->type() == ObjectType::iterator && items.as<Iterator>() == nullptr ? length_of(items) : -1;
  if (known_length >= 0) return known_length;
  const std::vector<Value> rest = list_of(machine, Value(source));
  known_length = static_cast<int64_t>(rest.size()) + index0 + 1 + (looked_ahead && next_exists ? 1 : 0);
  source = &iterate(machine, Value(machine.make_list(rest)));
  return known_length;
}

Value Loop::attribute(Machine& machine, std::string_view name) {
  if (name == "index") return Value(index0 + 1);
  if (name == "index0") return Value(index0);
  if (name == "first") return Value(index0 == 0);
  if (name == "last") return Value(!has_next(machine));
  if (name == "length") return Value(length(machine));
  if (name == "revindex") return Value(length(machine) - index0);
  if (name == "revindex0") return Value(length(machine) - index0 - 1);
  if (name == "depth") return Value(depth0 + 1);
  if (name == "depth0") return Value(depth0);
  if (name == "previtem") return index0 == 0 ? Value::absent(Absence::item, nullptr) : previous;
  if (name == "nextitem") return has_next(machine) ? next : Value::absent(Absence::item, nullptr);
  if (name == "cycle") return Value(machine.make<Function>(cycle, Value(this)));
  if (name == "changed") return Value(machine.make<Function>(changed, Value(this)));
  return Callable::attribute(machine, name);
}

Value Loop::call(Machine& machine, Arguments& arguments) {
  if (recursion == nullptr) machine.fail("only a loop marked 'recursive' can be called");
  if (arguments.positional.size() != 1) machine.fail("loop() takes exactly one argument, the items");
  return recursion->render(arguments.positional.front(), depth0 + 1);
}

}  // namespace quire::chat
