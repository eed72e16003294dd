// Macros, call blocks and generation blocks.
#include <algorithm>

#include "core/chat/tree_walk.h"

namespace quire::chat {

class TreeWalk::Macro final : public Callable {
 public:
  Macro(TreeWalk& walk, const MacroFunction& function, Activation* outer)
      : walk_(walk), function_(function), outer_(outer) {}

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
    if (name == "caller") return Value(function_.caller_idx.has_value());
    if (name == "catch_kwargs") return Value(function_.kwargs_idx.has_value());
    if (name == "catch_varargs") return Value(function_.varargs_idx.has_value());
    return Callable::attribute(machine, name);
  }

 private:
  Value run(Activation& activation, Arguments& arguments) {
    const Position caller_position = walk_.machine_.position();
    std::vector<bool> given(function_.parameters.size());
    bind(activation, arguments, given);
    const ScopedValue<Activation*> running(walk_.activation_, &activation);
    walk_.enter(function_.scope);
    fill_defaults(activation, given);
    const Value text = walk_.captured([&] { walk_.execute(function_.body); });
    walk_.machine_.set_position(caller_position);
    return text;
  }

  void bind(Activation& activation, Arguments& arguments, std::vector<bool>& given) {
    const size_t num_parameters = function_.parameters.size();
    const size_t num_bound = std::min(num_parameters, arguments.positional.size());
    for (size_t i = 0; i < num_bound; ++i) {
      activation.slots[function_.parameter_idx[i]] = arguments.positional[i];
      given[i] = true;
    }
    if (function_.varargs_idx) {
      const auto rest = arguments.positional.begin() + static_cast<std::ptrdiff_t>(num_bound);
      std::vector<Value> more(rest, arguments.positional.end());
      activation.slots[*function_.varargs_idx] = Value(walk_.machine_.make_list(std::move(more), true));
    } else if (arguments.positional.size() > num_parameters) {
      walk_.machine_.fail("macro '{}' takes at most {} arguments", function_.name, num_parameters);
    }
    bind_named(activation, arguments, given);
  }

  void bind_named(Activation& activation, Arguments& arguments, std::vector<bool>& given) {
    Machine& machine = walk_.machine_;
    Dict* rest = function_.kwargs_idx ? machine.make<Dict>() : nullptr;
    if (function_.caller_idx) {
      activation.slots[*function_.caller_idx] = Value::absent(Absence::variable, make_text("caller", true));
    }
    for (auto& [name, value] : arguments.named) {
      const auto found = std::find(function_.parameters.begin(), function_.parameters.end(), name);
      const auto idx = static_cast<size_t>(found - function_.parameters.begin());
      if (found != function_.parameters.end() && !given[idx]) {
        activation.slots[function_.parameter_idx[idx]] = value;
        given[idx] = true;
      } else if (function_.caller_idx && name == "caller") {
        activation.slots[*function_.caller_idx] = value;
      } else if (rest != nullptr) {
        rest->set(machine, machine.text(name), value);
      } else {
        machine.fail("macro '{}' takes no argument '{}'", function_.name, printable(name));
      }
    }
    if (rest != nullptr) activation.slots[*function_.kwargs_idx] = Value(rest);
  }

  void fill_defaults(Activation& activation, const std::vector<bool>& given) {
    const size_t num_parameters = function_.parameters.size();
    const size_t first_default = num_parameters - function_.defaults.size();
    for (size_t i = 0; i < num_parameters; ++i) {
      if (given[i]) continue;
      activation.slots[function_.parameter_idx[i]] =
          i >= first_default ? walk_.evaluate(*function_.defaults[i - first_default])
                             : Value::absent(Absence::parameter, make_text(function_.parameters[i], true));
    }
  }

  TreeWalk& walk_;
  const MacroFunction& function_;
  Activation* outer_;
};

Flow TreeWalk::execute(const MacroStatement& statement, const Position&) {
  assign(*statement.target, Value(machine_.make<Macro>(*this, statement.macro, activation_)));
  return Flow::normal;
}

Flow TreeWalk::execute(const CallStatement& statement, const Position& position) {
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

}  // namespace quire::chat
