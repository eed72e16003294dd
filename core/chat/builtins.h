// Filters, tests, functions and methods that templates have, by name; null or nothing where there is none.
#pragma once

#include <optional>
#include <string_view>

#include "core/chat/objects.h"

namespace quire::chat {

Builtin find_filter(std::string_view name);
Builtin find_test(std::string_view name);
Builtin find_global(std::string_view name);
// Of a value of that type.
Builtin find_method(const Value& value, std::string_view name);
// Methods that would change a list or a dict: templates may not.
bool is_forbidden_method(const Value& value, std::string_view name);

// object.name and object[key], each with the other as its second choice, as Jinja has them. Undefined where
// there is none.
Value attribute_of(Machine& machine, const Value& object, const TextRef& name);
Value item_of(Machine& machine, const Value& object, const Value& key);
// object[start:stop:step]; what is not given is undefined or none.
Value slice_of(Machine& machine, const Value& object, const Value& start, const Value& stop,
               const Value& step);

// Calls what can be called.
Value call_value(Machine& machine, const Value& callee, Arguments& arguments);

struct NamedBuiltin {
  std::string_view name;
  Builtin builtin;
};

}  // namespace quire::chat
