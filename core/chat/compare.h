// Equality, order and hashes of values, as Python defines them.
#pragma once

#include <cstddef>
#include <string_view>

#include "core/chat/objects.h"

namespace quire::chat {

bool equals(Machine& machine, const Value& left, const Value& right);
// Returns a number below, equal to or above 0; fails if the values have no order.
int order_of(Machine& machine, const Value& left, const Value& right);
// Returns left < right. For NaN, both is_less(a, b) and is_less(b, a) are false.
bool is_less(Machine& machine, const Value& left, const Value& right);
// Returns the hash of a value; equal values have equal hashes. Fails for lists and dicts.
size_t hash_of(Machine& machine, const Value& value);
// Evaluates `in`: whether a list has an item, a dict a key, or a text a substring.
bool contains(Machine& machine, const Value& container, const Value& item);
bool is_same(const Value& left, const Value& right);

// Returns Python's name of the type, such as "str".
std::string_view type_name(const Value& value);

}  // namespace quire::chat
