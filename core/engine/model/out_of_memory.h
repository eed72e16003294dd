// What a plan has no figure for: the heap, threads and their stacks.
#pragma once

#include <new>
#include <string_view>

#include "core/base/error.h"
#include "core/tensor/device.h"

namespace quire {

// What `body` returns. Where the system refuses it memory beside the bytes that were planned, the words say
// what was under way, what is left and what to do.
template <typename Body>
auto within_memory(std::string_view what, uint64_t bytes, const Device& device, const Body& body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    throw Error(
        ErrorCode::out_of_memory,
        "{} needs {} bytes of {} and some for its threads and tables, which the system refuses: {} are "
        "left; close what is not needed, or raise the limits of the process",
        what, bytes, device.name(), device.info().free_bytes);
  }
}

}  // namespace quire
