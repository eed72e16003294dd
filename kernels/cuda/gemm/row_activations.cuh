// What kernels of few rows do with a row of activations and with the sums of its chains.
#pragma once

#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/plan/gemm_shape.h"

namespace quire::kernels {

// A lane's activations of consecutive steps, loaded kAhead steps ahead; the last step is loaded again after
// the end. Lanes of tokens that do not exist have those of another one, whose sums are dropped: a load under
// a condition would need copies of its registers.
template <bool kShared, int kAhead>
class RowActivations {
 public:
  // `first` and `last` are the places of the steps: addresses in shared memory, or distances from `rows`.
  __device__ __forceinline__ RowActivations(const uint8_t* rows, uint32_t first, uint32_t last)
      : rows_(rows), at_(first), last_(last) {
    ahead_[0] = fetch();
#pragma unroll
    for (int i = 1; i < kAhead; ++i) {
      advance();
      ahead_[i] = fetch();
    }
  }
  __device__ __forceinline__ uint4 operator()() {
    const uint4 b = ahead_[0];
#pragma unroll
    for (int i = 1; i < kAhead; ++i) ahead_[i - 1] = ahead_[i];
    advance();
    ahead_[kAhead - 1] = fetch();
    return b;
  }

 private:
  __device__ __forceinline__ void advance() {
    at_ = min(at_ + kStepRows * 2, last_);
  }
  __device__ __forceinline__ uint4 fetch() const {
    if constexpr (kShared) {
      return load_shared_16(at_);
    } else {
      return load_at_once_16(rows_ + at_);
    }
  }

  const uint8_t* rows_;
  uint32_t at_;
  uint32_t last_;
  uint4 ahead_[kAhead];
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
