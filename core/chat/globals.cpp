// The global functions of chat templates, such as range, dict, namespace and strftime_now.
#include <array>

#include "core/chat/compare.h"
#include "core/chat/methods.h"
#include "core/chat/parameters.h"
#include "core/chat/print.h"
#include "core/chat/time_text.h"

namespace quire::chat {
namespace {

constexpr int64_t kMaxRange = 100'000;  // the limit of Jinja's sandbox

// --- Stateful objects

struct Cycler final : Callable {
  explicit Cycler(std::vector<Value> the_items) : items(std::move(the_items)) {}
  Value call(Machine& machine, Arguments&) override { machine.fail("a cycler cannot be called"); }
  Value attribute(Machine& machine, std::string_view name) override;
  std::vector<Value> items;
  size_t idx = 0;
};

struct Joiner final : Callable {
  explicit Joiner(Value the_separator) : separator(std::move(the_separator)) {}
  Value call(Machine& machine, Arguments&) override {
    if (used) return separator;
    used = true;
    return machine.text("");
  }
  Value separator;
  bool used = false;
};

// Returns the cycler; these methods are bound only to cyclers.
Cycler& cycler_of(const Arguments& arguments) {
  return *static_cast<Cycler*>(arguments.positional.front().object());
}

Value cycler_next(Machine&, Arguments& arguments) {
  Cycler& cycler = cycler_of(arguments);
  const Value item = cycler.items[cycler.idx];
  cycler.idx = (cycler.idx + 1) % cycler.items.size();
  return item;
}

Value cycler_reset(Machine&, Arguments& arguments) {
  cycler_of(arguments).idx = 0;
  return Value::none();
}

Value Cycler::attribute(Machine& machine, std::string_view name) {
  if (name == "current") return items[idx];
  if (name == "next") return Value(machine.make<Function>(cycler_next, Value(static_cast<Object*>(this))));
  if (name == "reset") return Value(machine.make<Function>(cycler_reset, Value(static_cast<Object*>(this))));
  return Callable::attribute(machine, name);
}

Value make_cycler(Machine& machine, Arguments& arguments) {
  if (arguments.positional.empty()) machine.fail("cycler() takes at least one item");
  return Value(machine.make<Cycler>(std::move(arguments.positional)));
}

Value make_joiner(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"sep"}, 0);
  return Value(machine.make<Joiner>(p.has(0) ? p[0] : machine.text(", ")));
}

// --- Functions that make values

void fill(Machine& machine, Dict& dict, Arguments& arguments) {
  if (arguments.positional.size() > 1) machine.fail("at most one positional argument is allowed");
  if (!arguments.positional.empty()) {
    const Value& from = arguments.positional.front();
    if (const auto* other = from.as<Dict>()) {
      for (const Dict::Entry& entry : other->entries) dict.set(machine, entry.key, entry.value);
    } else {
      for (const Value& item : list_of(machine, from)) {
        const std::vector<Value> pair = list_of(machine, item);
        if (pair.size() != 2) machine.fail("dict() takes pairs of a key and a value");
        dict.set(machine, pair[0], pair[1]);
      }
    }
  }
  for (auto& [name, value] : arguments.named) dict.set(machine, machine.text(name), std::move(value));
}

Value make_dict(Machine& machine, Arguments& arguments) {
  Dict* dict = machine.make<Dict>();
  fill(machine, *dict, arguments);
  return Value(dict);
}

Value make_namespace(Machine& machine, Arguments& arguments) {
  Namespace* space = machine.make<Namespace>();
  fill(machine, space->members, arguments);
  return Value(space);
}

Value range(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"start", "stop", "step"}, 1);
  const int64_t start = p.has(1) ? p.integer(0) : 0;
  const int64_t stop = p.has(1) ? p.integer(1) : p.integer(0);
  const int64_t step = p.integer(2, 1);
  if (step == 0) machine.fail("range() arg 3 must not be zero");
  int64_t span = 0;
  if (step == INT64_MIN || __builtin_sub_overflow(step > 0 ? stop : start, step > 0 ? start : stop, &span)) {
    machine.fail_limit("items of a range");
  }
  const int64_t size = span > 0 ? (span - 1) / (step > 0 ? step : -step) + 1 : 0;
  if (size > kMaxRange) machine.fail_limit("items of a range");
  return Value(machine.make<Range>(start, step, size));
}

Value raise_exception(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"message"}, 1);
  throw TemplateError(TemplateFault::raised, machine.position(), str_of(machine, p[0]).text().bytes());
}

Value strftime_now(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"format"}, 1);
  constexpr size_t kMaxFormatBytes = 4096;
  if (p.text(0)->bytes().size() > kMaxFormatBytes) machine.fail_limit("bytes of a time format");
  return machine.text(time_text(machine.now(), p.text(0)->bytes()));
}

constexpr std::array kGlobals = {
    NamedBuiltin{"cycler", make_cycler},
    NamedBuiltin{"dict", make_dict},
    NamedBuiltin{"joiner", make_joiner},
    NamedBuiltin{"namespace", make_namespace},
    NamedBuiltin{"raise_exception", raise_exception},
    NamedBuiltin{"range", range},
    NamedBuiltin{"strftime_now", strftime_now},
};

}  // namespace

Builtin find_global(std::string_view name) {
  return find_named(kGlobals, name);
}

}  // namespace quire::chat
