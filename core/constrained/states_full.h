// The error of a store of states that has reached a limit.
#pragma once

#include <cstddef>

#include "core/base/error.h"

namespace quire {

// Returns the size at which a store with this limit is full. A text that is in full states moves to new ones
// and must be within its limits there, so it has space for a quarter more before it has to move again.
constexpr size_t capacity_of(size_t limit) {
  return limit + limit / 4;
}

// Thrown with ErrorCode::capacity. A text that shares the store with others may still fit into a store of its
// own.
class StatesFull : public Error {
 public:
  StatesFull(const char* limit, size_t value, const char* unit)
      : Error(ErrorCode::capacity, "the constraint needs more than {} = {} {}", limit, value, unit) {}
};

}  // namespace quire
