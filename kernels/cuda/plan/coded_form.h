// Codes as the card's kernels read them: those with GPTQ's arithmetic, and those of MXFP4. All others become
// f16 while they load.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cuda/plan/matrix.h"
#include "kernels/interface/weight_source.h"

namespace quire::kernels {

// gptq or gptq8 where a weight is (code - zero) * scale with a scale in f16; mxfp4 where codes stand for E2M1
// and scales are powers of two; else dense.
TileKind coded_kind(const WeightSource& source);

// Of mxfp4: what is added to the largest exponent of a block's scales, so that it is that of the sums' scale.
int32_t exponent_shift(const WeightSource& source);

// Words that lie without gaps, the first index `outer_words` apart, the second `inner_words`.
struct CodeWords {
  const uint32_t* words = nullptr;
  size_t count = 0;
  int64_t outer_words = 0;
  int64_t inner_words = 0;
  std::vector<uint32_t> made;  // where they lay with gaps
};

// Of codes (by rows and columns) and of zeros (by groups and columns, no words where none are stored), with
// what had to be made anew: it stays where it is, since it points into itself.
struct GptqForm {
  CodeWords codes;
  CodeWords zeros;
  const uint16_t* scales = nullptr;  // [num_groups, padded_out] f16
  std::vector<uint16_t> made_scales;
};
void make_gptq_form(const WeightSource& source, GptqForm& form);

// The codes alone.
CodeWords make_codes(const WeightSource& source);

// [padded_out, K] f16, each weight rounded once.
std::vector<uint16_t> expand_to_half(const WeightSource& source);

}  // namespace quire::kernels
