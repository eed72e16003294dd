// The tables of methods, each in the file of its type.
#pragma once

#include <algorithm>
#include <string_view>

#include "core/chat/builtins.h"

namespace quire::chat {

// The builtin of that name in a table that is sorted by names, or null.
template <typename Table>
Builtin find_named(const Table& table, std::string_view name) {
  const auto found =
      std::lower_bound(table.begin(), table.end(), name,
                       [](const NamedBuiltin& entry, std::string_view key) { return entry.name < key; });
  return found != table.end() && found->name == name ? found->builtin : nullptr;
}

Builtin find_text_method(std::string_view name);
// Some letter has the case that `wanted` asks for, and none another.
bool has_only_case(std::string_view bytes, bool (*wanted)(uint32_t code_point));

// item_of along a path such as "a.b.0", as filters take it; undefined on the way fails.
Value item_at_path(Machine& machine, const Value& object, const Value& path);

}  // namespace quire::chat
