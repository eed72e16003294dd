// Mixture of experts (MoE): the router sends each token to a few of many feed-forward parts.
#pragma once

#include <optional>

#include "core/layers/expert_matrices.h"
#include "core/layers/mlp.h"
#include "core/layers/narrow.h"
#include "core/layers/router.h"

namespace quire {

struct ExpertsLayer {
  RouterLayer router;
  std::optional<NormLayer> router_norm;  // norm of the residual stream for the router alone
  kernels::MlpSpec expert;
  ShardColumns activated;  // columns that an expert's down matrix reads
  ShardColumns outputs;    // columns that an expert's down matrix computes
  ExpertMatrices gate_up;
  ExpertMatrices down;
  std::optional<NarrowLayer> narrow;
  std::optional<MlpLayer> shared;
  // Memory that a card needs to multiply these experts while they lie on the host. No staging_bytes: it
  // cannot. Without max_tokens, which the context decides.
  kernels::PackedExpertLimits packed;
  PreparedWeight shared_gate;  // empty: the shared expert is not scaled
  DeviceBuffer output_bias;

  // Adds the result to the residual stream.
  void forward(const ForwardPass& pass, const Block& block) const;
  // Writes the result to `target`, [tokens, hidden].
  void write_to(const ForwardPass& pass, const ExpertInput& input, float* target, int32_t hidden) const;

 private:
  // True if nothing is added to the sum over the experts, so that it can go directly to the residual stream.
  bool can_add() const { return !shared && !narrow && output_bias.bytes() == 0; }
  void add_to(const ForwardPass& pass, const ExpertInput& input, float* target, int32_t hidden) const;
  // Writes the sum over the experts to `target`, [tokens, columns].
  void write_sum(const ForwardPass& pass, const ExpertInput& input, float* target, int32_t columns) const;
  // Runs the router, the experts and the weighted sum. `sum` holds the target and its columns.
  void sum_up(const ForwardPass& pass, const ExpertInput& input, kernels::CombineParams& sum) const;
  void sum_here(const ForwardPass& pass, const void* read, kernels::CombineParams& sum) const;
  // Returns whether the card of a pass of host experts multiplies them in this step.
  bool goes_to_card(const ForwardPass& pass) const;
  void sum_there(const ForwardPass& pass, const void* read, const kernels::CombineParams& sum) const;
};

void build(const ExpertsPart& part, LayerBuilder& builder, ExpertsLayer& layer);
void cut(ExpertsPart& part, const ShardCut& shard);
void needs(const ExpertsPart& part, Needs& all);
void each_weight(const ExpertsLayer& layer, WeightVisitor& visitor);
uint64_t mechanisms(const ExpertsPart& part);

}  // namespace quire
