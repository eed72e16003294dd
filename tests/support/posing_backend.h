// A backend of its own in name, whose devices are those of another: they may be short of memory, or get lost.
#pragma once

#include <cstdint>
#include <limits>

#include "kernels/interface/kernel_table.h"

namespace quire::testing {

// One device at a time. Outlives it and all that is made of it. At most kMaxPosing of them at a time.
class PosingBackend {
 public:
  static constexpr int kMaxPosing = 4;
  static constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

  explicit PosingBackend(const kernels::Backend& real);
  PosingBackend(const PosingBackend&) = delete;
  PosingBackend& operator=(const PosingBackend&) = delete;
  ~PosingBackend();

  const kernels::Backend& backend() const;
  // So many buffers, weights and contexts more; then out_of_memory.
  void allow_allocations(int64_t count);
  // Of those taken and not given back.
  int64_t num_live() const;
  // Layers fail with device_lost from now on, or no longer.
  void lose(bool lost);
  // From now on, or no longer, each step is to be recorded first, for which there is no memory: layers do
  // nothing, and are asked for once more.
  void fail_recordings(bool fail);
  // Tokens of a page, as the last batch told them.
  int32_t posed_page_tokens() const;

 private:
  int slot_;
};

}  // namespace quire::testing
