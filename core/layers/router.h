// The choice of experts for each token.
#pragma once

#include "core/layers/block.h"
#include "core/layers/needs.h"

namespace quire {

// Rows that experts and their router read: rows that are normalised already, or the residual stream after
// `norm`, which the router leaves in Workspace::normed.
struct ExpertInput {
  const void* rows = nullptr;
  const NormLayer* norm = nullptr;

  const void* normed_rows(const kernels::Workspace& space) const {
    return rows != nullptr ? rows : space.normed;
  }
};

struct RouterLayer : kernels::RouterSpec {
  PreparedWeight matrix;
  DeviceBuffer choice_bias;
  DeviceBuffer expert_scale;

  // Leaves the chosen experts and their weights in Scratch::chosen and Scratch::weights.
  void forward(const ForwardPass& pass, const ExpertInput& input) const;
  // Returns the fraction of the experts that a token reads.
  double share() const { return double(num_chosen) / num_experts; }
};

void needs(const kernels::RouterSpec& spec, Needs& all);

}  // namespace quire
