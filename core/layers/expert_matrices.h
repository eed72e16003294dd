// One matrix of each expert, and the product of rows with the matrices of the experts that they chose.
#pragma once

#include <vector>

#include "core/layers/forward_pass.h"
#include "core/layers/weight_visitor.h"

namespace quire {

class LayerBuilder;

struct ExpertMatrices {
  std::vector<PreparedWeight> matrices;
  std::vector<const kernels::Weight*> handles;  // handles of the matrices, once they are prepared

  // Sets the number of experts, and collects the handles once the builder has prepared the matrices.
  void resize(int32_t num_experts, LayerBuilder& builder);
  PreparedWeight& at(int32_t expert) { return matrices[static_cast<size_t>(expert)]; }
};

// Visits all matrices; `share` is the fraction of them that a token reads.
void each_weight(const ExpertMatrices& experts, double share, WeightVisitor& visitor);

// Rows that a product of experts takes.
struct ExpertRows {
  const void* input = nullptr;
  int32_t rows_per_input = 1;
  const float* input_scale = nullptr;
  int32_t rows = 0;
  bool same_as_before = false;  // the rows that the product before took
};

// Where products go: with `mlp` they are made in `products`, and its activation writes `output`.
struct ExpertTarget {
  void* output = nullptr;
  const kernels::MlpSpec* mlp = nullptr;
  void* products = nullptr;
};

void multiply_experts(const ForwardPass& pass, const ExpertMatrices& experts, const ExpertRows& rows,
                      const ExpertTarget& target);

}  // namespace quire
