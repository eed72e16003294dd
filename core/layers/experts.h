// Routed experts: each token goes to a few of many feed-forward parts.
// Mixture of experts (MoE).
#pragma once

#include <optional>
#include <vector>

#include "core/layers/forward_pass.h"
#include "core/layers/mlp.h"
#include "core/layers/norm.h"

namespace quire {

// Matrices of experts, as one operation takes them.
struct ExpertMatrices {
  std::vector<PreparedWeight> matrices;
  std::vector<const kernels::Weight*> handles;  // of the matrices, once prepared

  void collect();
  // A visit with the share of the matrices that a token reads.
  template <typename Visit>
  void each_matrix(double share, Visit visit) const {
    for (const PreparedWeight& matrix : matrices) visit(matrix, share);
  }
};

// Which rows a product of experts takes.
struct ExpertRows {
  const void* input = nullptr;
  int32_t rows_per_input = 1;
  const float* input_scale = nullptr;
  int32_t rows = 0;
  bool same_as_before = false;  // what the product before took
};

// What becomes of products: where `mlp` is given, they are made in `products`.
struct ExpertTarget {
  void* output = nullptr;
  const kernels::MlpSpec* mlp = nullptr;
  void* products = nullptr;
};

void multiply_experts(const ForwardPass& pass, const ExpertMatrices& experts, const ExpertRows& rows,
                      const ExpertTarget& target);

// What experts and their router read: rows that are normalised already, or what `norm` makes of the residual
// stream, which the router leaves in Workspace::normed.
struct ExpertInput {
  const void* rows = nullptr;
  const NormLayer* norm = nullptr;

  const void* normed_rows(const kernels::Workspace& space) const {
    return rows != nullptr ? rows : space.normed;
  }
};

// The choice of experts; leaves experts and weights in Scratch::chosen and Scratch::weights.
struct RouterLayer : kernels::RouterSpec {
  PreparedWeight matrix;
  DeviceBuffer choice_bias;
  DeviceBuffer expert_scale;

  void forward(const ForwardPass& pass, const ExpertInput& input) const;
  double share() const { return double(num_chosen) / num_experts; }

  template <typename Visit>
  void each_buffer(Visit visit) const {
    visit(choice_bias);
    visit(expert_scale);
  }
};

struct ExpertsLayer {
  RouterLayer router;
  std::optional<NormLayer> router_norm;  // of the residual stream
  kernels::MlpSpec expert;
  ShardColumns activated;  // of an expert, that its down reads
  ShardColumns outputs;    // of its down
  ExpertMatrices gate_up;
  ExpertMatrices down;
  std::optional<MlpLayer> shared;
  PreparedWeight shared_gate;  // empty: none
  DeviceBuffer output_bias;

  // What they give for `input` in `target`, [tokens, hidden].
  void forward(const ForwardPass& pass, const ExpertInput& input, float* target, int32_t hidden) const;
  // The same on top of what is there, where nothing follows the sum of the experts.
  bool can_add() const { return !shared && output_bias.bytes() == 0 && !outputs.is_split(); }
  void add_to(const ForwardPass& pass, const ExpertInput& input, float* target, int32_t hidden) const;

  template <typename Visit>
  void each_matrix(Visit visit) const {
    visit(router.matrix, 1.0);
    gate_up.each_matrix(router.share(), visit);
    down.each_matrix(router.share(), visit);
    if (shared) shared->each_matrix(visit);
    visit(shared_gate, 1.0);
  }
  template <typename Visit>
  void each_buffer(Visit visit) const {
    router.each_buffer(visit);
    if (router_norm) router_norm->each_buffer(visit);
    if (shared) shared->each_buffer(visit);
    visit(output_bias);
  }

 private:
  // Up to the sum of the experts, by their weights.
  void sum_up(const ForwardPass& pass, const ExpertInput& input, kernels::CombineParams& sum) const;
};

}  // namespace quire
