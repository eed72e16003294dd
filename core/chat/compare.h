// Equality, order and hashes of values, as Python defines them.
#pragma once

#include <cstddef>
#include <string_view>

#include "core/chat/objects.h"

namespace quire::chat {

bool equals(Machine& machine, const Value& left, const Value& right);
// Below, equal or above 0; fails for values that have no order.
int order_of(Machine& machine, const Value& left, const Value& right);
// Whether left < right in the order of a comparison that may be false both ways (NaN).
bool is_less(Machine& machine, const Value& left, const Value& right);
// Equal values have equal hashes; fails for lists and dicts.
size_t hash_of(Machine& machine, const Value& value);
// `in`: an item, a key, or a part of a text.
bool contains(Machine& machine, const Value& container, const Value& item);
bool is_same(const Value& left, const Value& right);

// What Python calls the type, such as "str".
std::string_view type_name(const Value& value);

}  // namespace quire::chat
