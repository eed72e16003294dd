// Interning: maps equal values to the same number.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace quire {

// A set of values with numbers, assigned in order from 0. An exception leaves everything unchanged. Not
// thread-safe.
template <typename Value>
class Interner {
 public:
  Interner() = default;
  Interner(const Interner&) = delete;
  Interner& operator=(const Interner&) = delete;

  uint32_t number_of(Value value) {
    if (values_.size() == values_.capacity()) values_.reserve(2 * values_.size() + 1);
    const auto [entry, is_new] = numbers_.emplace(std::move(value), static_cast<uint32_t>(values_.size()));
    if (is_new) values_.push_back(&entry->first);
    return entry->second;
  }
  uint32_t size() const { return static_cast<uint32_t>(values_.size()); }
  // The address of the value never changes.
  const Value& operator[](uint32_t number) const { return *values_[number]; }

 private:
  std::map<Value, uint32_t> numbers_;
  std::vector<const Value*> values_;  // point to keys of the map
};

}  // namespace quire
