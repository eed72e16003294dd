// Limits of the draws of a step.
#pragma once

#include <algorithm>
#include <cstdint>

namespace quire::kernels {

// Returns the maximum number of rows with a mask in one call to `sample`: a sequence may have several rows.
constexpr int32_t max_draw_masks(int32_t max_logit_rows, int32_t max_sequences) {
  constexpr int32_t kLeast = 32;
  return std::min(max_logit_rows, std::max(max_sequences, kLeast));
}

}  // namespace quire::kernels
