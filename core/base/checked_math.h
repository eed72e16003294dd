// Integer arithmetic on numbers from a file or a caller: overflow throws an Error instead of wrapping.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>

#include "core/base/error.h"

namespace quire {

template <std::unsigned_integral T>
T checked_add(T a, T b, std::string_view what) {
  T sum{};
  if (__builtin_add_overflow(a, b, &sum)) throw Error(ErrorCode::format, "{}: {} + {} overflows", what, a, b);
  return sum;
}

template <std::unsigned_integral T>
T checked_mul(T a, T b, std::string_view what) {
  T product{};
  if (__builtin_mul_overflow(a, b, &product)) {
    throw Error(ErrorCode::format, "{}: {} * {} overflows", what, a, b);
  }
  return product;
}

// Returns the value as another integer type; throws an Error that names `what` if it is out of range.
template <std::integral To, std::integral From>
To checked_cast(From value, std::string_view what) {
  if (!std::in_range<To>(value)) throw Error(ErrorCode::format, "{}: {} is out of range", what, value);
  return static_cast<To>(value);
}

// Returns the smallest multiple of `step` that is >= value; step > 0. Does not overflow for sizes that fit in
// memory.
constexpr uint64_t round_up(uint64_t value, uint64_t step) {
  return (value + step - 1) / step * step;
}
constexpr uint64_t ceil_div(uint64_t value, uint64_t step) {
  return (value + step - 1) / step;
}

}  // namespace quire
