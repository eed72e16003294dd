// The frame of a mixer or of a feed-forward part: hidden += post_norm(part(norm(hidden))).
#pragma once

#include "core/layers/forward_pass.h"
#include "core/layers/norm.h"

namespace quire {

// Borrowed for the duration of one call.
struct Block {
  const NormLayer& norm;
  const std::optional<NormLayer>& post_norm;
  const void* input = nullptr;  // rows that are normalised already; nullptr: norm(hidden) is read

  int32_t hidden() const { return norm.columns; }
  // Returns the rows that the part reads: `input`, or norm(hidden) in workspace.normed.
  const void* input_rows(const ForwardPass& pass) const;
  // Adds the result of a part, [tokens, hidden], to the residual stream.
  void add_result(const ForwardPass& pass, const float* result) const;
};

}  // namespace quire
