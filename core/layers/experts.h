// Mixture of experts (MoE): the router sends each token to a few of many feed-forward parts.
#pragma once

#include <optional>

#include "core/layers/card_experts.h"
#include "core/layers/expert_matrices.h"
#include "core/layers/mlp.h"
#include "core/layers/narrow.h"
#include "core/layers/router.h"

namespace quire {

// Experts that a card can multiply while they lie on the host.
struct PackedExperts {
  // Memory that the card needs for them. No staging_bytes: it cannot multiply them. Without max_tokens, which
  // the context decides, and with as many slots as experts.
  kernels::PackedExpertLimits limits;
  int32_t slots_idx = 0;  // number among the layers of the stage that have such experts
};

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
  PackedExperts packed;
  PreparedWeight shared_gate;  // empty: the shared expert is not scaled
  DeviceBuffer output_bias;

  // Returns the bytes of the experts' matrices that a token reads on average.
  double step_bytes() const;
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
  // Multiplies the experts of the rows here, except those whose expert is -1.
  void multiply_here(const ForwardPass& pass, const void* read) const;
  void sum_here(const ForwardPass& pass, kernels::CombineParams& sum) const;
  // The experts are multiplied by the card, or by it and this device, each its part.
  void sum_there(const ForwardPass& pass, CardRows rows, const kernels::CombineParams& sum) const;
  void sum_at_both(const ForwardPass& pass, const CardRows& rows, kernels::CombineParams& sum) const;
  CardRows card_rows(const ForwardPass& pass, const void* read) const;
};

void build(const ExpertsPart& part, LayerBuilder& builder, ExpertsLayer& layer);
void cut(ExpertsPart& part, const ShardCut& shard);
void needs(const ExpertsPart& part, Needs& all);
void each_weight(const ExpertsLayer& layer, WeightVisitor& visitor);
uint64_t mechanisms(const ExpertsPart& part);

}  // namespace quire
