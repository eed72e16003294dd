// Shared memory of the attention kernels that hold chunks of keys and values as f16: attention_decode.cu and
// attention_prefill.cu. Independent of CUDA.
#pragma once

#include <cstdint>

#include "kernels/cuda/plan/shared_pages.h"
#include "kernels/interface/host_and_device.h"

namespace quire::kernels {

constexpr int32_t kPrefillRows = 64;  // rows of queries of a block of attention_prefill.cu

// Returns the head size of the kernel for heads of that size.
constexpr int32_t padded_head_dim(int32_t head_dim) {
  return head_dim <= 64 ? 64 : head_dim <= 128 ? 128 : 256;
}

// Returns the bytes of `chunks` chunks of keys or values and of `rows` rows of queries.
QUIRE_HOST_AND_DEVICE constexpr uint32_t chunks_bytes(int32_t chunks, int32_t rows, int32_t padded_dim) {
  return static_cast<uint32_t>(chunks * kChunkTokens + rows) * static_cast<uint32_t>(padded_dim) * 2;
}

// Returns how many chunks the blocks of both kernels hold at a time: 2, keys and values; 1, if the values are
// copied to the place of the keys once the scores are computed; 0, if the card has too little memory for
// that, so that attention_any.cu computes all attention of such heads. Results of 1 and 2 have the same bits.
constexpr int32_t held_chunks(uint32_t shared_per_block, int32_t head_dim) {
  const int32_t dim = padded_head_dim(head_dim);
  if (chunks_bytes(2, kPrefillRows, dim) <= shared_per_block) return 2;
  return dim > 64 && chunks_bytes(1, kPrefillRows, dim) <= shared_per_block ? 1 : 0;
}

}  // namespace quire::kernels
