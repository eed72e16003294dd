// Reports allocations that fail although no plan counts them: heap, threads and their stacks.
#pragma once

#include <new>
#include <string_view>

#include "core/base/error.h"
#include "core/tensor/device.h"

namespace quire {

// Returns the result of `body`. Turns std::bad_alloc into ErrorCode::out_of_memory; the message names the
// operation (`what`), the planned bytes, the free memory, and what to do.
template <typename Body>
auto within_memory(std::string_view what, uint64_t bytes, const Device& device, const Body& body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::out_of_memory,
                "{} needs {} bytes of {} and some for its threads and tables, but the system refused an "
                "allocation: "
                "{} bytes are free; close unused caches and models, or raise the limits of the process",
                what, bytes, device.name(), device.info().free_bytes);
  }
}

}  // namespace quire
