// Codes in the form that the CUDA kernels read: with GPTQ's arithmetic, or MXFP4. All others are converted to
// f16 during the load.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cuda/plan/matrix.h"
#include "kernels/interface/weight_source.h"

namespace quire::kernels {

// Returns gptq or gptq8 if a weight is (code - zero) * scale with a scale in f16; mxfp4 if codes are E2M1 and
// scales are powers of two; otherwise dense.
TileKind coded_kind(const WeightSource& source);

// mxfp4: returns the number to add to the largest exponent of a block's scales to get the exponent of the
// sums' scale.
int32_t exponent_shift(const WeightSource& source);

// Words without gaps: the first index steps `outer_words`, the second `inner_words`.
struct CodeWords {
  const uint32_t* words = nullptr;
  size_t count = 0;
  int64_t outer_words = 0;
  int64_t inner_words = 0;
  std::vector<uint32_t> made;  // a copy, if the source had gaps
};

// Codes (by rows and columns) and zeros (by groups and columns; no words if none are stored), with copies of
// what had to be converted. Must not be moved, since it points into itself.
struct GptqForm {
  CodeWords codes;
  CodeWords zeros;
  const uint16_t* scales = nullptr;  // [num_groups, padded_out] f16
  std::vector<uint16_t> made_scales;
};
void make_gptq_form(const WeightSource& source, GptqForm& form);

// Returns only the codes.
CodeWords make_codes(const WeightSource& source);

// Returns [padded_out, K] f16, each weight rounded once.
std::vector<uint16_t> expand_to_half(const WeightSource& source);

}  // namespace quire::kernels
