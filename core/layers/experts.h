// Routed experts: each token goes to a few of many feed-forward parts.
// Mixture of experts (MoE).
#pragma once

#include <optional>

#include "core/layers/expert_matrices.h"
#include "core/layers/mlp.h"
#include "core/layers/router.h"

namespace quire {

struct ExpertsLayer {
  RouterLayer router;
  std::optional<NormLayer> router_norm;  // norm of the residual stream, for the router alone
  kernels::MlpSpec expert;
  ShardColumns activated;  // columns that an expert's down reads
  ShardColumns outputs;    // columns of an expert's down
  ExpertMatrices gate_up;
  ExpertMatrices down;
  std::optional<MlpLayer> shared;
  PreparedWeight shared_gate;  // empty: none
  DeviceBuffer output_bias;

  // Adds the result to the residual stream.
  void forward(const ForwardPass& pass, const Block& block) const;
  // Writes the result to `target`, [tokens, hidden].
  void write_to(const ForwardPass& pass, const ExpertInput& input, float* target, int32_t hidden) const;

 private:
  // True if nothing follows the sum of the experts, so that it can go on top of the residual stream.
  bool can_add() const { return !shared && output_bias.bytes() == 0 && !outputs.is_split(); }
  void add_to(const ForwardPass& pass, const ExpertInput& input, float* target, int32_t hidden) const;
  // Computes everything up to the sum of the experts by their weights.
  void sum_up(const ForwardPass& pass, const ExpertInput& input, kernels::CombineParams& sum) const;
};

void build(const ExpertsPart& part, LayerBuilder& builder, ExpertsLayer& layer);
void cut(ExpertsPart& part, const ShardCut& shard);
void needs(const ExpertsPart& part, Needs& all);
void each_weight(const ExpertsLayer& layer, WeightVisitor& visitor);
uint64_t mechanisms(const ExpertsPart& part);

}  // namespace quire
