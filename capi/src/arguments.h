// Checks of arguments, and writing of results to the caller's memory.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>

#include <gsl/gsl>
#include <quire/base.h>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/wait.h"

namespace quire::capi {

// Returns `length` elements at `data`, or an empty span. Throws ErrorCode::invalid_argument for NULL with a
// length, and for a length that exceeds the address space.
template <typename T>
gsl::span<const T> array_argument(const T* data, size_t length, std::string_view name) {
  if (length == 0) return {};
  if (data == nullptr)
    throw Error(ErrorCode::invalid_argument,
                "{}: NULL with a length of {}; pass its address, or a length of 0", name, length)
        .at(name);
  if (length > static_cast<size_t>(PTRDIFF_MAX) / sizeof(T)) {
    throw Error(ErrorCode::invalid_argument, "{}: a length of {} exceeds the address space", name, length)
        .at(name);
  }
  return {data, length};
}

inline std::string_view text_argument(const char* text, size_t text_len, std::string_view name = "text") {
  const auto span = array_argument(text, text_len, name);
  return {span.data(), span.size()};
}

// Returns a text that is passed to the operating system as a zero-terminated string; throws if it contains a
// zero byte.
std::string_view c_text_argument(const char* text, size_t text_len, std::string_view what);

template <typename T>
requires std::is_integral_v<T> T range_argument(T value, T min, T max, std::string_view name) {
  if (value < min || value > max) {
    throw Error(ErrorCode::invalid_argument, "{}: {} is not in {} to {}", name, value, min, max).at(name);
  }
  return value;
}

// Returns an element of a list that is not empty.
template <typename List>
const auto& element_argument(const List& of, int32_t idx, std::string_view name) {
  return of[static_cast<size_t>(range_argument(idx, 0, gsl::narrow<int32_t>(of.size()) - 1, name))];
}

// Returns the value if it is finite and in range.
float number_argument(double value, double min, double max, std::string_view name);

inline bool flag_argument(int32_t value, std::string_view name) {
  return range_argument(value, 0, 1, name) != 0;
}

// Returns UTF-8 text of at most max_bytes.
std::string short_text_argument(const char* text, size_t text_len, size_t max_bytes, std::string_view name);
// Returns the name of a namespace.
std::string namespace_argument(const char* text, size_t text_len);
// Returns the weight of a namespace or a cache.
double weight_argument(double weight);

// Returns a timeout. A negative one never expires; long ones are limited, so that adding them to a time does
// not overflow.
inline Duration timeout_argument(int64_t timeout_ns) {
  constexpr int64_t kForever = int64_t{1'000'000'000} * 60 * 60 * 24 * 365 * 30;  // thirty years
  return Duration(timeout_ns < 0 ? kForever : std::min(timeout_ns, kForever));
}

// Returns the result of a wait function: 1, or the reason why there is nothing to return.
inline int32_t wait_result(WaitEnd end) {
  switch (end) {
    case WaitEnd::ready:
      return 1;
    case WaitEnd::end:
      return QUIRE_WAIT_END;
    case WaitEnd::cancelled:
      return QUIRE_WAIT_CANCELLED;
    default:
      return QUIRE_WAIT_TIMEOUT;
  }
}

// Returns nanoseconds from now; 0: none.
inline Duration deadline_argument(int64_t deadline_ns, std::string_view name = "deadline_ns") {
  if (deadline_ns < 0)
    throw Error(ErrorCode::invalid_argument, "{}: {} is negative; use 0 for none", name, deadline_ns)
        .at(name);
  return std::min(Duration(deadline_ns), timeout_argument(-1));
}

// Destination of a result. Constructed before any work, so that an invalid buffer is reported early.
template <typename T>
class OutArgument {
 public:
  OutArgument(T* data, size_t capacity, std::string_view name) : data_(data), capacity_(capacity) {
    if (data == nullptr && capacity > 0) {
      throw Error(ErrorCode::invalid_argument,
                  "{}: NULL with a capacity of {}; pass a buffer, or a capacity of 0", name, capacity)
          .at(name);
    }
  }

  bool fits(size_t size) const { return size <= capacity_; }
  // Writes the whole result if it fits, otherwise nothing. Returns the size of the result in both cases.
  int64_t write(gsl::span<const T> result) const {
    if (fits(result.size())) std::copy(result.begin(), result.end(), data_);
    return static_cast<int64_t>(result.size());
  }
  T* data() const { return data_; }

 private:
  T* data_;
  size_t capacity_;
};

// Writes counts of any integer type, or none.
template <typename Counts>
int64_t write_counts(const Counts& counts, bool has_counts, int64_t* out_counts, size_t out_capacity) {
  std::array<int64_t, std::tuple_size_v<Counts>> result;
  std::copy(counts.begin(), counts.end(), result.begin());
  const OutArgument<int64_t> out(out_counts, out_capacity, "out_counts");
  return out.write(has_counts ? gsl::span<const int64_t>(result) : gsl::span<const int64_t>());
}

inline int64_t write_text(std::string_view result, char* out_text, size_t out_capacity) {
  return OutArgument<char>(out_text, out_capacity, "out_text").write({result.data(), result.size()});
}

}  // namespace quire::capi
