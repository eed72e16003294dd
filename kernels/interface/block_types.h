// Block types of GGUF files: some consecutive weights of a row, their codes and their scales in a few bytes.
// All of them become one form: docs/adr/0067.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quire::kernels {

enum class BlockType : uint8_t {
  none,  // single elements, no blocks
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q8_0,
  q2_k,
  q3_k,
  q4_k,
  q5_k,
  q6_k,
  iq1_s,
  iq1_m,
  iq2_xxs,
  iq2_xs,
  iq2_s,
  iq3_xxs,
  iq3_s,
  iq4_nl,
  iq4_xs,
  tq1_0,
  tq2_0,
  mxfp4,
  nvfp4,
  q1_0,
  q2_0,
};
inline constexpr int kNumBlockTypes = 26;  // with none

// Largest number of weights in a block.
inline constexpr int32_t kMaxBlockWeights = 256;

struct BlockShape {
  const char* name = "";  // as GGUF's documentation writes it
  int32_t weights = 1;    // of one block, consecutive in a row
  int32_t bytes = 0;
};

constexpr BlockShape kBlockShapes[kNumBlockTypes] = {
    {"none", 1, 0},     {"Q4_0", 32, 18},     {"Q4_1", 32, 20},    {"Q5_0", 32, 22},     {"Q5_1", 32, 24},
    {"Q8_0", 32, 34},   {"Q2_K", 256, 84},    {"Q3_K", 256, 110},  {"Q4_K", 256, 144},   {"Q5_K", 256, 176},
    {"Q6_K", 256, 210}, {"IQ1_S", 256, 50},   {"IQ1_M", 256, 56},  {"IQ2_XXS", 256, 66}, {"IQ2_XS", 256, 74},
    {"IQ2_S", 256, 82}, {"IQ3_XXS", 256, 98}, {"IQ3_S", 256, 110}, {"IQ4_NL", 32, 18},   {"IQ4_XS", 256, 136},
    {"TQ1_0", 256, 54}, {"TQ2_0", 256, 66},   {"MXFP4", 32, 17},   {"NVFP4", 64, 36},    {"Q1_0", 128, 18},
    {"Q2_0", 64, 18},
};

constexpr const BlockShape& block_shape(BlockType type) {
  return kBlockShapes[static_cast<size_t>(type)];
}

// Returns the bytes of a row of `columns` weights, which must be whole blocks.
constexpr size_t block_row_bytes(BlockType type, int32_t columns) {
  const BlockShape& shape = block_shape(type);
  return static_cast<size_t>(columns / shape.weights) * static_cast<size_t>(shape.bytes);
}

// Converts `count` blocks to `count * weights` floats, with the products and the rounding of ggml: equal to
// its values bit for bit.
void decode_blocks(BlockType type, const void* blocks, size_t count, float* out);

// Returns the index of the first block with a scale that is infinite or not a number, or with which weights
// would be infinite; otherwise `count`.
size_t first_unsound_block(BlockType type, const void* blocks, size_t count);

}  // namespace quire::kernels
