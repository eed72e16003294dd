// Values of blocks as a thread reads them from a file's bytes, with the rounding of ggml.
#pragma once

#include "kernels/cuda/gemm/block_weights.cuh"
#include "kernels/interface/block_readers.h"

namespace quire::kernels {

__device__ __forceinline__ float block_half(uint16_t bits) {
  return __half2float(__ushort_as_half(bits));
}

// Returns the scale of a group without BlockForm::factor.
__device__ __forceinline__ float block_scale(BlockTerms terms, const BlockCodes& block, int group) {
  const uint8_t byte = block.group_scales[group];
  switch (terms) {
    case BlockTerms::half:
    case BlockTerms::half_min:
      return block_half(block.scales[group]);
    case BlockTerms::bytes:
      return block_half(block.scales[0]) * static_cast<float>(static_cast<int8_t>(byte));
    case BlockTerms::bytes_min:
      return block_half(block.scales[0]) * static_cast<float>(byte);
    case BlockTerms::nibbles_min:
      return block_half(block.scales[0]) * static_cast<float>(byte & 15);
    case BlockTerms::e4m3:
      return block_half(static_cast<uint16_t>(byte << 7)) * 256.0f;
    default:
      return byte == 255 ? __uint_as_float(0x7fc00000U)
                         : __uint_as_float(byte == 0 ? 0x00400000U : static_cast<uint32_t>(byte) << 23);
  }
}

__device__ __forceinline__ float block_min(BlockTerms terms, const BlockCodes& block, int group) {
  switch (terms) {
    case BlockTerms::half_min:
      return block_half(block.mins[group]);
    case BlockTerms::bytes_min:
      return block_half(block.mins[0]) * static_cast<float>(block.group_mins[group]);
    case BlockTerms::nibbles_min:
      return block_half(block.mins[0]) * static_cast<float>(block.group_scales[group] >> 4);
    default:
      return 0.0f;
  }
}

}  // namespace quire::kernels
