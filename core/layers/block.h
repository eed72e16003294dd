// Common frame of a mixer and a feed-forward part: hidden += post_norm(part(norm(hidden))).
#pragma once

#include "core/layers/forward_pass.h"
#include "core/layers/norm.h"

namespace quire {

// Norms and input of a part. Borrowed for the duration of one call.
struct Block {
  const NormLayer& norm;
  const NormLayer* post_norm = nullptr;  // norm of the part's result; nullptr: none
  const void* input = nullptr;           // rows that are already normalized; nullptr: compute norm(hidden)

  int32_t hidden() const { return norm.columns; }
  // Returns the rows that the part reads: `input`, or norm(hidden), which it writes to workspace.normed.
  const void* input_rows(const ForwardPass& pass) const;
  // Applies post_norm, if there is one, to the result of the part, [tokens, hidden]. Then adds it to the
  // residual stream.
  void add_result(const ForwardPass& pass, const float* result) const;
};

}  // namespace quire
