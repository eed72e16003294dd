// A warp's private ring of one or two slots in shared memory for segments of weights, which are copied
// asynchronously and in order. One bulk copy (TMA) per segment on cards that have it (compute capability 9.0
// and later), otherwise 16-byte cp.async copies by all lanes.
#pragma once

#include <cstdint>

#include "kernels/cuda/device/ptx.cuh"

namespace quire::kernels {

class WarpRing {
 public:
  // `slots` and `barriers` (8 bytes per slot) belong to this warp only. Called by the whole warp.
  __device__ __forceinline__ WarpRing(uint32_t slots, uint32_t barriers, int num_slots, uint32_t slot_bytes,
                                      int lane)
      : slots_(slots), barriers_(barriers), slot_bytes_(slot_bytes), num_slots_(num_slots) {
#if __CUDA_ARCH__ >= 900
    if (lane < num_slots_) barrier_init(barriers_ + 8 * lane, 1);
    fence_barrier_init();
    __syncwarp();
#endif
  }

  // Starts the copy of `bytes` (a multiple of 16) from `source` into the next slot. All lanes must have
  // finished reading that slot.
  __device__ __forceinline__ void request(const uint8_t* source, uint32_t bytes, int lane) {
    const uint32_t target = slots_ + next_ * slot_bytes_;
#if __CUDA_ARCH__ >= 900
    if (lane == 0) copy_bulk(target, source, bytes, barriers_ + 8 * next_);
#else
    for (uint32_t at = lane * 16; at < bytes; at += 512) copy_async_16(target + at, source + at);
    commit_copies();
#endif
    if (++next_ == num_slots_) next_ = 0;
  }
  // Replaces a request at the end of the work, so that every wait counts the same number of copies.
  __device__ __forceinline__ void request_nothing() {
#if __CUDA_ARCH__ < 900
    commit_copies();
#endif
  }

  // Waits until the oldest request is complete; returns its address.
  __device__ __forceinline__ uint32_t wait() {
#if __CUDA_ARCH__ >= 900
    barrier_wait(barriers_ + 8 * first_, phase_);
#else
    if (num_slots_ == 1) {
      wait_for_copies<0>();
    } else {
      wait_for_copies<1>();
    }
    __syncwarp();
#endif
    const uint32_t address = slots_ + first_ * slot_bytes_;
    if (++first_ == num_slots_) {
      first_ = 0;
      phase_ ^= 1;
    }
    return address;
  }
  __device__ __forceinline__ int size() const {
    return num_slots_;
  }

 private:
  uint32_t slots_;
  uint32_t barriers_;
  uint32_t slot_bytes_;
  int num_slots_;
  int next_ = 0;
  int first_ = 0;
  uint32_t phase_ = 0;
};

}  // namespace quire::kernels
