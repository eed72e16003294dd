// The tables of methods; each table is in the file of its type.
#pragma once

#include <algorithm>
#include <string_view>

#include "core/chat/builtins.h"

namespace quire::chat {

// Returns the builtin with this name from a table sorted by name, or null.
template <typename Table>
Builtin find_named(const Table& table, std::string_view name) {
  const auto found =
      std::lower_bound(table.begin(), table.end(), name,
                       [](const NamedBuiltin& entry, std::string_view key) { return entry.name < key; });
  return found != table.end() && found->name == name ? found->builtin : nullptr;
}

Builtin find_text_method(std::string_view name);
// Returns whether the text has a cased letter and all cased letters satisfy `wanted`.
bool has_only_case(std::string_view bytes, bool (*wanted)(uint32_t code_point));

// Looks up a path such as "a.b.0", as filters accept it; fails if a step on the way is undefined.
Value item_at_path(Machine& machine, const Value& object, const Value& path);

}  // namespace quire::chat
