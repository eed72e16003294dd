// Random matrices in every weight format, built code by code with the packing rules of docs/formats.md, so
// that their dequantized values are known without any code under test.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/interface/weight_source.h"
#include "tests/support/random_numbers.h"
#include "tests/support/safetensors_builder.h"

namespace quire::testing {

// Owns a matrix as it is stored in a file, and its values. Movable and copyable: source() points into the
// object it is called on.
struct WeightFixture {
  kernels::WeightFormat format = kernels::WeightFormat::dense;
  int32_t num_in = 0;
  int32_t num_out = 0;
  int32_t padded_out = 0;
  // dense
  kernels::DType dense_dtype = kernels::DType::f16;
  std::vector<uint16_t> dense_half;  // f16 or bf16, [num_out, num_in]
  std::vector<float> dense_float;
  std::vector<uint8_t> dense_codes;  // f8_e4m3, [num_out, num_in]
  std::vector<float> dense_scales;   // [ceil(num_out / scale_out), ceil(num_in / scale_in)]
  int32_t scale_out = 0;
  int32_t scale_in = 0;
  // exl2 and coded
  std::vector<uint8_t> codes;         // [num_in, padded_out] in stored row order
  std::vector<uint8_t> scale_nibs;    // exl2: [num_groups, padded_out]
  std::vector<uint8_t> stored_zeros;  // coded: [num_groups, padded_out], or empty
  std::vector<uint32_t> q_weight;
  std::vector<uint32_t> q_scale;
  std::vector<uint16_t> q_scale_max;
  std::vector<kernels::Exl2Group> groups;
  int32_t bits = 4;                                  // coded
  bool by_output = false;                            // coded: words are along the inputs of an output
  std::vector<uint8_t> values;                       // coded: values of the codes, or empty
  std::vector<uint32_t> q_zeros;                     // coded, or empty
  kernels::DType scale_dtype = kernels::DType::f16;  // coded
  std::vector<uint8_t> scales;                       // coded: [num_groups, padded_out] of scale_dtype
  std::vector<int32_t> group_of_row;
  int32_t zero_offset = 1;
  // All formats; each empty if absent.
  std::vector<int32_t> row_order;
  std::vector<int32_t> column_order;
  std::vector<float> bias;
  float prescale = 1.0f;

  kernels::WeightSource source() const;
  const void* dense_data() const;
  int32_t num_groups() const;
  // Returns the inverse of row_order, or the identity: EXL2 stores it as q_invperm.
  std::vector<int32_t> inverse_row_order() const;
  // Returns the pairs (bits, first packed row) that EXL2 stores as q_groups.
  std::vector<int16_t> stored_groups() const;
};

struct Exl2GroupSpec {
  int32_t bits = 4;
  int32_t rows = 32;
};

struct Exl2Options {
  std::vector<Exl2GroupSpec> groups;  // from high bits to low, as in files
  int32_t num_out = 32;               // padded to a multiple of 32
  bool permute_rows = true;
  bool permute_columns = false;
  bool bias = false;
  float prescale = 1.0f;
  uint64_t seed = 1;
};
WeightFixture make_exl2(const Exl2Options& options);

struct CodedOptions {
  int32_t num_in = 64;
  int32_t num_out = 32;     // padded to a multiple of 8
  int32_t group_size = 32;  // the last group may be shorter
  bool act_order = false;   // the rows of a group may be anywhere
  bool permute_columns = false;
  bool bias = false;
  int32_t zero_offset = 1;  // 1: checkpoint format "gptq", 0: "gptq_v2"
  float prescale = 1.0f;
  uint64_t seed = 1;
  // For formats other than 4-bit GPTQ:
  int32_t bits = 4;
  bool by_output = false;            // as compressed-tensors stores it
  bool has_zeros = true;             // if false, all zeros are zero_offset
  std::vector<uint8_t> values = {};  // [16] of the codes; empty: the codes themselves
  kernels::DType scale_dtype = kernels::DType::f16;
};
WeightFixture make_coded(const CodedOptions& options);
// Returns a set of options with every width, layout, kind of values, zeros and scales that a backend must
// support, in varying combinations.
std::vector<CodedOptions> coded_varieties(uint64_t seed);

struct DenseOptions {
  int32_t num_in = 32;
  int32_t num_out = 32;
  kernels::DType dtype = kernels::DType::f16;  // f16, bf16, f32 or f8_e4m3
  int32_t scale_out = 0;                       // f8_e4m3: outputs that share a scale; 0: all
  int32_t scale_in = 0;                        // inputs that share a scale; 0: all
  bool permute_columns = false;
  bool bias = false;
  float prescale = 1.0f;
  uint64_t seed = 1;
};
WeightFixture make_dense(const DenseOptions& options);

// Returns the E4M3 code nearest to a finite value, the even one of two; values beyond 448 give the code of
// 448.
uint8_t float_to_e4m3(float value);

// Splits `rows` rows into one run of groups for each width of `bits` (from high to low), each of `group_size`
// rows if they fit. Every width gets at least one group; rows is a multiple of 32 and at least 32 *
// bits.size().
std::vector<Exl2GroupSpec> mixed_groups(const std::vector<int32_t>& bits, int32_t rows, int32_t group_size);

// Packs codes as in files: one little-endian bit stream per column, cut into 32-bit words. codes is
// [num_rows, num_columns]; the result is [num_rows * bits / 32, num_columns].
std::vector<uint32_t> pack_codes(const std::vector<uint8_t>& codes, int32_t num_rows, int32_t num_columns,
                                 int32_t bits);

// Appends the tensors of the layer `key` as in a model file. A column order is not part of a file.
void add_weight(SafetensorsBuilder& file, const std::string& key, const WeightFixture& weight);

}  // namespace quire::testing
