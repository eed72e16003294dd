#include "core/chat/compare.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/chat/machine.h"

namespace quire::chat {
namespace {

bool equal_items(Machine& machine, const std::vector<Value>& left, const std::vector<Value>& right) {
  if (left.size() != right.size()) return false;
  for (size_t i = 0; i < left.size(); ++i) {
    if (!equals(machine, left[i], right[i])) return false;
  }
  return true;
}

bool equal_dicts(Machine& machine, const Dict& left, const Dict& right) {
  if (left.entries.size() != right.entries.size()) return false;
  for (const Dict::Entry& entry : left.entries) {
    const Value* other = right.find(machine, entry.key);
    if (other == nullptr || !equals(machine, entry.value, *other)) return false;
  }
  return true;
}

bool equal_ranges(const Range& left, const Range& right) {
  if (left.size != right.size) return false;
  return left.size == 0 || (left.start == right.start && (left.size == 1 || left.step == right.step));
}

bool equal_objects(Machine& machine, const Value& left, const Value& right) {
  if (left.object() == right.object()) return true;
  const auto* left_list = left.as<List>();
  const auto* right_list = right.as<List>();
  if (left_list != nullptr && right_list != nullptr) {
    return left_list->is_tuple == right_list->is_tuple &&
           equal_items(machine, left_list->items, right_list->items);
  }
  const auto* left_dict = left.as<Dict>();
  const auto* right_dict = right.as<Dict>();
  if (left_dict != nullptr && right_dict != nullptr) return equal_dicts(machine, *left_dict, *right_dict);
  const auto* left_range = left.as<Range>();
  const auto* right_range = right.as<Range>();
  return left_range != nullptr && right_range != nullptr && equal_ranges(*left_range, *right_range);
}

bool equal_numbers(const Value& left, const Value& right) {
  if (left.is_integer() && right.is_integer()) return left.integer() == right.integer();
  return left.number() == right.number();
}

int sign(bool less, bool greater) {
  return less ? -1 : (greater ? 1 : 0);
}

[[noreturn]] void fail_order(Machine& machine, const Value& left, const Value& right) {
  if (left.is_undefined()) machine.fail_undefined(left);
  if (right.is_undefined()) machine.fail_undefined(right);
  machine.fail("{} and {} cannot be ordered", type_name(left), type_name(right));
}

// Compares the first items that differ; if there are none, compares the lengths.
template <typename Compare>
auto compare_lists(Machine& machine, const List& left, const List& right, Compare&& compare) {
  const size_t num_common = std::min(left.items.size(), right.items.size());
  for (size_t i = 0; i < num_common; ++i) {
    if (!equals(machine, left.items[i], right.items[i])) return compare(left.items[i], right.items[i]);
  }
  return compare(Value(static_cast<int64_t>(left.items.size())),
                 Value(static_cast<int64_t>(right.items.size())));
}

const List* lists_of_one_type(const Value& left, const Value& right) {
  const auto* left_list = left.as<List>();
  const auto* right_list = right.as<List>();
  if (left_list == nullptr || right_list == nullptr) return nullptr;
  return left_list->is_tuple == right_list->is_tuple ? left_list : nullptr;
}

size_t hash_number(double value) {
  return std::hash<double>{}(value == 0.0 ? 0.0 : value);
}

}  // namespace

bool equals(Machine& machine, const Value& left, const Value& right) {
  const Machine::Level level(machine);
  machine.step();
  if (left.is_number() && right.is_number()) return equal_numbers(left, right);
  if (left.kind() != right.kind()) return false;
  if (left.is_text()) {
    machine.step_bytes(std::min(left.text().bytes().size(), right.text().bytes().size()));
    return left.text().bytes() == right.text().bytes();
  }
  return left.kind() != Kind::object || equal_objects(machine, left, right);
}

bool is_less(Machine& machine, const Value& left, const Value& right) {
  const Machine::Level level(machine);
  if (left.is_number() && right.is_number()) {
    if (left.is_integer() && right.is_integer()) return left.integer() < right.integer();
    return left.number() < right.number();
  }
  return order_of(machine, left, right) < 0;
}

int order_of(Machine& machine, const Value& left, const Value& right) {
  const Machine::Level level(machine);
  machine.step();
  if (left.is_number() && right.is_number()) {
    return sign(is_less(machine, left, right), is_less(machine, right, left));
  }
  if (left.is_text() && right.is_text()) {
    machine.step_bytes(std::min(left.text().bytes().size(), right.text().bytes().size()));
    return left.text().bytes().compare(right.text().bytes());  // UTF-8 sorts in the order of the code points
  }
  if (lists_of_one_type(left, right) == nullptr) fail_order(machine, left, right);
  return compare_lists(machine, *left.as<List>(), *right.as<List>(),
                       [&](const Value& a, const Value& b) { return order_of(machine, a, b); });
}

size_t hash_of(Machine& machine, const Value& value) {
  const Machine::Level level(machine);
  machine.step();
  switch (value.kind()) {
    case Kind::undefined:
    case Kind::none:
      return static_cast<size_t>(value.kind());
    case Kind::boolean:
    case Kind::integer:
    case Kind::real:
      return hash_number(value.number());
    case Kind::text:
      machine.step_bytes(value.text().bytes().size());
      return std::hash<std::string>{}(value.text().bytes());
    case Kind::object:
      break;
  }
  const auto* list = value.as<List>();
  if (value.as<Dict>() != nullptr || (list != nullptr && !list->is_tuple)) {
    machine.fail("{} cannot be a key of a dict", type_name(value));
  }
  if (list == nullptr) return std::hash<const Object*>{}(value.object());
  size_t hash = list->items.size();
  for (const Value& item : list->items) hash = hash * 31 + hash_of(machine, item);
  return hash;
}

bool is_same(const Value& left, const Value& right) {
  if (left.kind() != right.kind()) return false;
  switch (left.kind()) {
    case Kind::undefined:
    case Kind::none:
      return true;
    case Kind::boolean:
    case Kind::integer:
      return left.integer() == right.integer();
    case Kind::real:
      return left.number() == right.number();
    case Kind::text:
      return left.text().bytes() == right.text().bytes();
    case Kind::object:
      break;
  }
  return left.object() == right.object();
}

bool contains(Machine& machine, const Value& container, const Value& item) {
  if (container.is_text()) {
    if (!item.is_text()) machine.fail("'in' of a str takes a str, not {}", type_name(item));
    machine.step_bytes(container.text().bytes().size());
    return container.text().bytes().find(item.text().bytes()) != std::string::npos;
  }
  if (const auto* dict = container.as<Dict>()) return dict->find(machine, item) != nullptr;
  if (!is_iterable(container)) machine.fail("'in' does not work on {}", type_name(container));
  Iterator& iterator = iterate(machine, container);
  Value candidate;
  while (iterator.next(machine, candidate)) {
    if (equals(machine, candidate, item)) return true;
  }
  return false;
}

std::string_view type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::undefined:
      return "Undefined";
    case Kind::none:
      return "None";
    case Kind::boolean:
      return "bool";
    case Kind::integer:
      return "int";
    case Kind::real:
      return "float";
    case Kind::text:
      return value.text().is_markup() ? "Markup" : "str";
    case Kind::object:
      break;
  }
  switch (value.object()->type()) {
    case ObjectType::list:
      return value.as<List>()->is_tuple ? "tuple" : "list";
    case ObjectType::dict:
      return "dict";
    case ObjectType::dict_view:
      return "dict view";
    case ObjectType::range:
      return "range";
    case ObjectType::iterator:
      return "generator";
    case ObjectType::name_space:
      return "Namespace";
    case ObjectType::callable:
      return "function";
  }
  return "object";
}

}  // namespace quire::chat
