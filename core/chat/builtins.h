// Look-up by name of the filters, tests, functions and methods that chat templates can use; null or nothing
// if there is none.
#pragma once

#include <optional>
#include <string_view>

#include "core/chat/objects.h"

namespace quire::chat {

Builtin find_filter(std::string_view name);
Builtin find_test(std::string_view name);
Builtin find_global(std::string_view name);
// Returns the method of a value of this type, or null.
Builtin find_method(const Value& value, std::string_view name);
// Returns whether the name is a method that would change a list or a dict; templates may not call those.
bool is_forbidden_method(const Value& value, std::string_view name);

// Evaluate object.name and object[key]. As in Jinja, each tries the other form second. Undefined if neither
// exists.
Value attribute_of(Machine& machine, const Value& object, const TextRef& name);
Value item_of(Machine& machine, const Value& object, const Value& key);
// Evaluates object[start:stop:step]; omitted parts are undefined or none.
Value slice_of(Machine& machine, const Value& object, const Value& start, const Value& stop,
               const Value& step);

// Calls a function, a macro or another callable; fails if `callee` is not callable.
Value call_value(Machine& machine, const Value& callee, Arguments& arguments);

struct NamedBuiltin {
  std::string_view name;
  Builtin builtin;
};

}  // namespace quire::chat
