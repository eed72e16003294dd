// Backend with its own name whose devices are those of another; they can be made to run out of memory, or to
// be lost.
#pragma once

#include <cstdint>
#include <limits>

#include "kernels/interface/kernel_table.h"

namespace quire::testing {

// One device at a time. Must outlive the device and everything made on it. At most kMaxWrapped exist at a
// time.
class WrappedBackend {
 public:
  static constexpr int kMaxWrapped = 4;
  static constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

  // `name` is that of the backend; nullptr: the name of `real`.
  explicit WrappedBackend(const kernels::Backend& real, const char* name = nullptr);
  WrappedBackend(const WrappedBackend&) = delete;
  WrappedBackend& operator=(const WrappedBackend&) = delete;
  ~WrappedBackend();

  const kernels::Backend& backend() const;
  // Allows `count` more buffers, weights and contexts; then out_of_memory.
  void allow_allocations(int64_t count);
  // Returns the number of allocations not freed yet.
  int64_t num_live() const;
  // Makes layers fail with device_lost (true), or work again (false).
  void lose(bool lost);
  // While set, each step must be recorded first, and the recording runs out of memory: layers do nothing and
  // are called once more.
  void fail_recordings(bool fail);
  // Returns the tokens per page that the last batch declared.
  int32_t last_page_tokens() const;

 private:
  int slot_;
};

}  // namespace quire::testing
