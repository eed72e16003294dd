// Router of a mixture of experts (MoE): chooses the experts of each token.
#pragma once

#include "core/layers/block.h"
#include "core/layers/needs.h"

namespace quire {

// Rows that a router and its experts read: rows that are already normalized, or the residual stream after
// `norm`, which the router writes to Workspace::normed.
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

  // Writes the chosen experts and their weights to Scratch::chosen and Scratch::weights.
  void forward(const ForwardPass& pass, const ExpertInput& input) const;
  // Returns the fraction of the experts that a token reads.
  double share() const { return double(num_chosen) / num_experts; }
};

void needs(const kernels::RouterSpec& spec, Needs& all);

}  // namespace quire
