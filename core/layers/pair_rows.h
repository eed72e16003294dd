// Two normalised rows of a token side by side.
#pragma once

#include "core/layers/forward_pass.h"
#include "core/layers/needs.h"
#include "core/layers/norm.h"

namespace quire {

// Rows of the hidden size, f32, and their norm.
struct NormedRows {
  const NormLayer& norm;
  const float* rows = nullptr;
};

// Returns [left | right], both normalised, in the activation dtype: [tokens, 2 * hidden]. Uses Scratch::other
// and Scratch::projected; the result is valid until Scratch::rounded or Scratch::other is used again.
const void* pair_rows(const ForwardPass& pass, const NormedRows& left, const NormedRows& right);
void need_pair_rows(Needs& all);

}  // namespace quire
