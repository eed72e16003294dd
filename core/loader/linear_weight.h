// Validated matrix of one linear layer for a backend, in host memory or with its elements still in a file.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include <gsl/gsl>

#include "core/loader/host_tensor.h"
#include "kernels/interface/weight_source.h"

namespace quire {

struct DenseMatrix {
  HostTensor weight;  // [num_out, num_in] f16, bf16, f32 or f8_e4m3
  // Scales of f8_e4m3: one for each block of scale_out outputs by scale_in inputs, in rows of outputs.
  std::vector<float> scales;
  int32_t scale_out = 0;
  int32_t scale_in = 0;
};

struct Exl2Matrix {
  HostTensor q_weight;
  HostTensor q_scale;
  HostTensor q_scale_max;
  std::vector<kernels::Exl2Group> groups;
};

// Matrix of quantized codes. See kernels::CodedSource.
struct CodedMatrix {
  struct Zeros {
    std::vector<uint32_t> words;  // [num_groups, words of padded_out zeros]
    bool stored = false;          // true also if they were not read
    int32_t offset = 0;
  };
  int32_t bits = 4;
  HostTensor codes;        // words, or bytes of which four make a word
  int64_t first_word = 0;  // of the first row and output
  int64_t row_words = 0;
  int64_t column_words = 0;
  const uint8_t* values = nullptr;  // [16], in a table with static lifetime
  Zeros zeros;
  DType scale_dtype = DType::f16;
  std::vector<uint8_t> scales;        // [num_groups, padded_out] of scale_dtype
  std::vector<int32_t> group_of_row;  // [num_in]
  int32_t num_groups = 0;
};

// Rows of blocks. See kernels::BlockSource.
struct BlockMatrix {
  HostTensor rows;  // the bytes of [num_out] rows, u8
  kernels::BlockType type = kernels::BlockType::none;
};

// Tiles between two Hadamard transforms. See kernels::TrellisSource.
struct TrellisMatrix {
  HostTensor tiles;  // I16, as stored
  kernels::TrellisCodebook codebook = kernels::TrellisCodebook::three_inst;
  int32_t half_bits = 0;
  std::vector<uint16_t> input_scales;   // f16, for the padded inputs
  std::vector<uint16_t> output_scales;  // f16 [padded_out]
};

// Owns everything that its source() points to. Move-only; a move does not change the addresses of its
// buffers.
struct LinearWeight {
  int32_t num_in = 0;
  int32_t num_out = 0;
  int32_t padded_out = 0;  // columns as stored
  std::variant<DenseMatrix, Exl2Matrix, CodedMatrix, BlockMatrix, TrellisMatrix> matrix;
  std::vector<float> bias;            // in stored column order, at least [num_out], or empty
  std::vector<int32_t> row_order;     // stored row k is input feature row_order[k]; empty: the same
  std::vector<int32_t> column_order;  // output j is stored column column_order[j]; empty: the same
  float prescale = 1.0f;

  kernels::WeightFormat format() const { return static_cast<kernels::WeightFormat>(matrix.index()); }
  // Returns a source that is valid until this object is changed or destroyed.
  kernels::WeightSource source() const;
  // Returns the matrix if it is still in its file, otherwise nullptr.
  UnreadTensor* unread() const;
  // Returns the stored size of the matrix and its scales.
  uint64_t size_bytes() const;
};

// Makes `producers` write their outputs in the stored row order of `consumer` (act-order), so that its rows
// need no permutation: gate and up produce the input of down. Changes nothing if the consumer's rows are in
// order. Each producer must have as many stored outputs as the consumer has inputs, and no column order other
// than that of a slice of them.
void fold_row_order(LinearWeight& consumer, gsl::span<LinearWeight* const> producers);

}  // namespace quire
