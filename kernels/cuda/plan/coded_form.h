// Codes as the card's kernels read them. They know one arrangement, that of GPTQ's 4 bits: codes that differ
// from it by their order alone are brought into it on the host, all others become f16 while they load.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/interface/weight_source.h"

namespace quire::kernels {

// Whether the arithmetic is that of GPTQ's 4 bits: (code - zero) * scale with a scale in f16.
bool has_gptq_arithmetic(const CodedSource& coded);

// [ceil(K / 8), columns] words of codes, [groups, columns / 8] words of zeros, [groups, columns] scales.
struct GptqForm {
  int32_t columns = 0;  // padded_out, to a multiple of 8
  const uint32_t* codes = nullptr;
  const uint32_t* zeros = nullptr;
  const uint16_t* scales = nullptr;
  // What had to be made anew.
  std::vector<uint32_t> made_codes;
  std::vector<uint32_t> made_zeros;
  std::vector<uint16_t> made_scales;
};
// Of a source with that arithmetic; stays on the heap, since it points into itself.
void make_gptq_form(const WeightSource& source, GptqForm& form);

// [padded_out, K] f16, each weight rounded once.
std::vector<uint16_t> expand_to_half(const WeightSource& source);

}  // namespace quire::kernels
