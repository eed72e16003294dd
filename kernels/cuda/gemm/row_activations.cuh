// What kernels of few rows do with a row of activations and with the sums of its chains.
#pragma once

#include <type_traits>

#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/plan/gemm_shape.h"

namespace quire::kernels {

// A lane's activations of consecutive steps, loaded kAhead steps ahead. Lanes of tokens that do not exist
// have zeros, or, if the row is in shared memory, the same row: their sums are dropped, and a load without a
// condition needs no copy of its registers.
template <bool kShared, int kAhead>
class RowActivations {
 public:
  // kShared: addresses in shared memory; `end` is that of the last step, which is loaded again after the end.
  __device__ __forceinline__ RowActivations(uint64_t first, uint64_t end, bool live)
      : at_(static_cast<Address>(first)), end_(static_cast<Address>(end)), live_(live) {
    fetch(ahead_[0]);
#pragma unroll
    for (int i = 1; i < kAhead; ++i) {
      advance();
      fetch(ahead_[i]);
    }
  }
  __device__ __forceinline__ uint4 operator()() {
    const uint4 b = ahead_[0];
#pragma unroll
    for (int i = 1; i < kAhead; ++i) ahead_[i - 1] = ahead_[i];
    advance();
    fetch(ahead_[kAhead - 1]);
    return b;
  }

 private:
  using Address = std::conditional_t<kShared, uint32_t, uint64_t>;

  __device__ __forceinline__ void advance() {
    at_ += kStepRows * 2;
    if constexpr (kShared) at_ = min(at_, end_);
  }
  __device__ __forceinline__ void fetch(uint4& to) {
    if constexpr (kShared) {
      to = load_shared_16(at_);
    } else {
      load_16_if(to, at_, live_ && at_ < end_ ? 1 : 0);
    }
  }

  Address at_;
  Address end_;
  bool live_;
  uint4 ahead_[kAhead] = {};
};

// Returns the sum of all chains for one column; `stride` is in floats from one chain to the next.
__device__ __forceinline__ float add_16_chains(const float* first, int stride) {
  constexpr int kHalf = 8;
  float total = first[0] + first[kHalf * stride];
#pragma unroll
  for (int c = 1; c < kHalf; ++c) total += first[c * stride] + first[(c + kHalf) * stride];
  return total;
}
__device__ __forceinline__ float add_8_chains(const float* first, int stride) {
  float total = first[0];
#pragma unroll
  for (int c = 1; c < kFewChains; ++c) total += first[c * stride];
  return total;
}

}  // namespace quire::kernels
