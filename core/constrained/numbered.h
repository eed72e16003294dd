// Interning: maps equal values to the same number.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/constrained/reserve_one.h"

namespace quire {

// A set of values with numbers, assigned in order from 0. A value is a string or a vector. An exception
// leaves everything unchanged. Not thread-safe.
template <typename Value>
class Interner {
 public:
  Interner() = default;
  Interner(const Interner&) = delete;
  Interner& operator=(const Interner&) = delete;

  uint32_t number_of(Value value) {
    reserve_one(values_);
    const auto [entry, is_new] = numbers_.emplace(std::move(value), size());
    if (!is_new) return entry->second;
    values_.push_back(&entry->first);
    held_bytes_ += kEntryBytes + entry->first.size() * sizeof(*entry->first.data());
    return entry->second;
  }
  std::optional<uint32_t> find(const Value& value) const {
    const auto entry = numbers_.find(value);
    if (entry == numbers_.end()) return std::nullopt;
    return entry->second;
  }
  uint32_t size() const { return static_cast<uint32_t>(values_.size()); }
  size_t held_bytes() const { return held_bytes_; }
  // The address of the value never changes.
  const Value& operator[](uint32_t number) const { return *values_[number]; }

 private:
  static constexpr size_t kEntryBytes = sizeof(Value) + 64;  // of the map and the list

  std::map<Value, uint32_t> numbers_;
  std::vector<const Value*> values_;  // point to keys of the map
  size_t held_bytes_ = 0;
};

}  // namespace quire
