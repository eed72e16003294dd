// A matrix in the layout that the tensor cores eat.
//
// Columns (output features) come in strips of 32, rows (input features, in stored order) in steps of 32; a
// tile is one strip by one step, 1,024 weights, and the tiles of a strip follow each other in memory. Lane
// 4g+t of a warp owns 32 weights of a tile: columns g, g+8, g+16, g+24 by rows 8t..8t+7. They are numbered as
// 16 pairs h = 8i + 4j + r: columns 16i + g + 8(r & 1), rows 8t + 4j + 2(r >> 1) + {0, 1}. That is the order
// of the A operand of mma.m16n8k16 with the columns of W as its rows: i is the half strip, j the mma, r the
// register. So a warp multiplies 32 columns by up to 8 tokens whatever their number, and 8 consecutive
// activations of a token are one 16-byte load per lane.
//
// Codes of b bits are split into planes, each lane's part contiguous: 2 bits [2 words], 3 = 2 + 1,
// 4 [4 words], 5 = 4 + 1, 6 = 4 + 2, 8 [8 words], 16 (f16 itself, 4 planes of 4 words). Bits of the two codes
// of a pair lie in the two halves of a word, at a place from which one AND with a mask and one OR with the
// bit pattern of 1024.0 yields 1024 + code * 2^p (plane.cuh).
#pragma once

#include <cstdint>

namespace quire::kernels {

constexpr int kStripColumns = 32;
constexpr int kStepRows = 32;
constexpr int kMaxRuns = 8;
constexpr int kMaxParts = 3;
constexpr int kChainsPerSplit = 4;

enum class TileKind : int32_t { exl2, gptq, dense };

// A run of steps of one bit width and one group size.
struct Run {
  int32_t first_step = 0;
  int32_t end_step = 0;
  int32_t bits = 0;
  int32_t first_group = 0;
  int32_t group_shift = 0;  // steps per group = 1 << group_shift
  uint32_t first_byte = 0;  // of the strip
};

// Columns that came from one stored matrix.
struct Part {
  const uint8_t* codes = nullptr;
  // exl2: 16 bytes per (strip, group), nibble q of half word g is column g + 8q; gptq: 128 bytes, f16 scales
  // [8][4] then f16 zeros [8][4].
  const uint8_t* scales = nullptr;
  const uint32_t* group_scale = nullptr;  // exl2: [groups] f16 twice: q_scale_max * prescale / 256
  uint32_t strip_bytes = 0;
  int32_t num_groups = 0;
  int32_t num_strips = 0;
  int32_t num_columns = 0;
  int32_t first_column = 0;  // in the output
  int32_t num_runs = 0;
  Run runs[kMaxRuns];
};

// What a kernel sees. A unit is a pair of strips, 64 columns: two neighbours of a part, or, where `paired`,
// strip j of the gate and strip j of the up matrix, so that gate and up meet in one thread block.
struct Matrix {
  TileKind kind = TileKind::dense;
  int32_t num_parts = 0;
  int32_t num_steps = 0;    // ceil(K / 32)
  int32_t num_rows = 0;     // K
  int32_t num_columns = 0;  // of all parts
  int32_t num_units = 0;
  int32_t max_bits = 0;
  int32_t paired = 0;
  int32_t num_splits = 1;  // of K over thread blocks; a property of the matrix, so that no sum depends on T
  const float* bias = nullptr;  // [num_columns] or nullptr
  Part parts[kMaxParts];
};

}  // namespace quire::kernels
