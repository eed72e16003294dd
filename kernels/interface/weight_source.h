// A matrix as stored on disk, already validated, before a backend converts it to its own layout.
//
// All matrices are described as [K, N]: y[n] = sum over k of x[k] * W[k][n], K = in features, N = out
// features. Formats bit by bit: docs/formats.md.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/interface/block_types.h"
#include "kernels/interface/trellis.h"
#include "kernels/interface/types.h"

namespace quire::kernels {

enum class WeightFormat : uint8_t { dense, exl2, coded, blocks, trellis };

// Format in which a product reads its activations. `full`: with the full precision of the backend. `i8`: as
// 8-bit integers with a scale for each 128 of a row: x = code * amax / 127; in products with exl2, coded and
// blocks matrices. `f8`: as E4M3, x = code * amax / 448 for each 128 of a row; in products with f8_e4m3
// matrices whose scales are shared by all rows or by multiples of 128. Only on backends that support it
// (kMechanismByteActivations, kMechanismFloat8Activations). The result of a row never depends on other rows.
enum class ActivationDtype : uint8_t { full, i8, f8 };

// Bytes that are still in a file and are read directly to their destination. Used by one thread at a time.
struct UnreadBytes {
  void* owner = nullptr;
  // Fills `out` with `count` bytes from `offset` on. Returns false if they could not be read; the owner
  // records the reason.
  bool (*read)(void* owner, uint64_t offset, void* out, size_t count) = nullptr;
};

// nn.Linear.weight as stored: [N, K], K contiguous, with WeightSource::padded_out for N.
struct DenseSource {
  DType dtype = DType::f16;  // f16, bf16, f32 or f8_e4m3
  const void* data = nullptr;
  // f8_e4m3 only: W[k][n] = code * scales[n / scale_out][k / scale_in]. No code is NaN, and rows are in
  // order.
  const float* scales = nullptr;  // [ceil(N / scale_out), ceil(K / scale_in)], from 0 to kMaxE4m3Scale
  int32_t scale_out = 0;          // 1..N columns share a scale
  int32_t scale_in = 0;           // 1..K rows share a scale
};

// Largest E4M3 scale. With a larger one a weight could exceed the range of f16.
constexpr float kMaxE4m3Scale = 65504.0f / 448.0f;

// Consecutive EXL2 rows that share a bit width and a maximum scale.
struct Exl2Group {
  int32_t bits = 0;              // 2, 3, 4, 5, 6 or 8
  int32_t first_row = 0;         // among the stored (permuted) rows
  int32_t num_rows = 0;          // > 0, a multiple of 32 (of 16 for a 2-bit group)
  int32_t first_packed_row = 0;  // row of q_weight; the group has num_rows * bits / 32 packed rows
};

// W[k][n] = (code - 2^(bits-1)) * scale,
// scale = f16(f16((nibble + 1)^2) * f16(q_scale_max[g] * prescale / 256)).
struct Exl2Source {
  const uint32_t* q_weight =
      nullptr;  // [packed_rows, padded_out], little-endian bit stream per column and group
  const uint32_t* q_scale = nullptr;      // [num_groups, padded_out / 8], 4 bits each, low nibble first
  const uint16_t* q_scale_max = nullptr;  // [num_groups] f16
  const Exl2Group* groups = nullptr;      // [num_groups], rows in order and without gaps; bits never increase
  int32_t num_groups = 0;
  int32_t packed_rows = 0;
};

// Groups of rows whose codes share a scale and a zero in each column: GPTQ, AWQ, compressed-tensors, MXFP4,
// NVFP4. W[k][n] = (value - zero) * scale, with value = values[code], or the code itself; scale and zero are
// those of group group_of_row[k].
struct CodedSource {
  int32_t bits = 4;  // bits of a code: 4 or 8
  // Word (r, n) holds the codes of column n in the rows from r * 32 / bits on, the first in its lowest bits.
  const uint32_t* codes = nullptr;
  int64_t row_words = 0;     // distance from word (r, n) to word (r + 1, n)
  int64_t column_words = 0;  // distance from word (r, n) to word (r, n + 1)
  // Values of 4-bit codes, [16]; nullptr: the codes themselves. prescale and zero_offset turn them into a
  // table of halves or of signed numbers.
  const uint8_t* values = nullptr;
  // Word (g, j) holds the zeros of the columns from j * 32 / bits on. If zero_group_words is 0, no zeros are
  // stored and all are zero_offset.
  const uint32_t* zeros = nullptr;
  int64_t zero_group_words = 0;
  int64_t zero_column_words = 0;
  int32_t zero_offset = 0;  // added to a stored zero; 1 for GPTQ's first checkpoint format
  // [num_groups, padded_out] f16, bf16, f32 or f8_e8m0; each at most 2^15 in magnitude.
  const void* scales = nullptr;
  DType scale_dtype = DType::f16;
  const int32_t* group_of_row =
      nullptr;  // [K], each in 0..num_groups-1; rows of a group need not be adjacent
  int32_t num_groups = 0;

  bool has_zeros() const { return zero_group_words != 0; }
  uint32_t code(int64_t row, int64_t column) const {
    return bits_at(codes + column * column_words, row, row_words);
  }
  int32_t zero(int64_t group, int64_t column) const {
    const uint32_t stored =
        has_zeros() ? bits_at(zeros + group * zero_group_words, column, zero_column_words) : 0;
    return static_cast<int32_t>(stored) + zero_offset;
  }

 private:
  // Returns code `index` of words that lie `stride` apart.
  uint32_t bits_at(const uint32_t* words, int64_t index, int64_t stride) const {
    const int64_t per_word = 32 / bits;
    return (words[index / per_word * stride] >> (index % per_word * bits)) & ((1U << bits) - 1U);
  }
};

// Rows of blocks as in a GGUF file (docs/adr/0067): nn.Linear.weight [N, K], K contiguous and whole blocks,
// with WeightSource::padded_out for N. Scales need not be finite: an output whose scales are not is not a
// number.
struct BlockSource {
  BlockType type = BlockType::none;
  const void* data = nullptr;  // [padded_out, block_row_bytes(type, K)]
};

// Matrix of EXL3: tiles between two Hadamard transforms (kernels/interface/trellis.h).
// WeightSource::padded_out is a multiple of 128, and K is padded to one: padded inputs are 0.
struct TrellisSource {
  TrellisCodebook codebook = TrellisCodebook::three_inst;
  int32_t half_bits = 0;                    // twice the bits of a weight; is_trellis_width
  const uint16_t* tiles = nullptr;          // [padded K / 16, padded_out / 16, trellis_tile_words(half_bits)]
  const uint16_t* input_scales = nullptr;   // [padded K] finite f16
  const uint16_t* output_scales = nullptr;  // [padded_out] finite f16
};

// Source of a weight. Borrowed: everything it points to must exist until the prepare call returns.
struct WeightSource {
  // If set, it provides the stored_bytes of dense.data, exl2.q_weight, coded.codes, blocks.data or
  // trellis.tiles, and that pointer is nullptr. Codes lie without gaps.
  const UnreadBytes* unread = nullptr;
  WeightFormat format = WeightFormat::dense;
  int32_t num_in = 0;   // K
  int32_t num_out = 0;  // N that the model uses
  // N as stored, a multiple of 32 for exl2 and of 128 for trellis; without a column order >= num_out
  int32_t padded_out = 0;
  DenseSource dense;
  Exl2Source exl2;
  CodedSource coded;
  BlockSource blocks;
  TrellisSource trellis;
  // Stored row k is input feature row_order[k]; nullptr: rows are in the order of the features. A permutation
  // of 0..K-1. EXL2 files carry one; for the other formats it is nullptr.
  const int32_t* row_order = nullptr;
  // Output j of the prepared matrix is stored column column_order[j]; nullptr: unchanged. Allows a matrix to
  // write its results in the row order of the next matrix. Applies to the bias too.
  const int32_t* column_order = nullptr;
  const float* bias = nullptr;  // bias in stored column order; only entries that outputs read need to exist
  float prescale = 1.0f;        // multiplies the matrix, not the bias
  ActivationDtype activations = ActivationDtype::full;  // the same for all parts of a matrix
  bool is_expert = false;  // one of several matrices that are chosen among while a step runs
};

// Matrix whose parts have the same input.
struct MatrixSource {
  const WeightSource* parts = nullptr;
  int32_t num_parts = 0;
  // Columns of the parts of the matrix without shards, if this shard has some of them. Sums then have the
  // order that they would have there. nullptr: these are all columns.
  const int32_t* whole_columns = nullptr;  // [num_whole_parts]; 0: a part of which this shard has no column
  int32_t num_whole_parts = 0;
};

// Embedding table, [rows, columns] row-major as stored. Borrowed, like WeightSource.
struct TableSource {
  DType dtype = DType::f16;  // f16, bf16 or f32; without meaning for blocks
  int32_t rows = 0;
  int32_t columns = 0;
  const void* data = nullptr;
  const UnreadBytes* unread = nullptr;  // instead of data, as in WeightSource
  BlockType blocks = BlockType::none;   // otherwise rows are blocks of this type
};

}  // namespace quire::kernels
