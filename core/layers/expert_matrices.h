// One matrix per expert, and the product of rows with the matrices of their chosen experts.
#pragma once

#include <vector>

#include "core/layers/forward_pass.h"
#include "core/layers/weight_visitor.h"

namespace quire {

class LayerBuilder;

struct ExpertMatrices {
  std::vector<PreparedWeight> matrices;
  std::vector<const kernels::Weight*> handles;  // handles of `matrices`, set once they are prepared

  // Sets the number of experts. `handles` is filled once the builder has prepared the matrices.
  void resize(int32_t num_experts, LayerBuilder& builder);
  PreparedWeight& at(int32_t expert) { return matrices[static_cast<size_t>(expert)]; }
};

// Visits all matrices; `share` is the fraction of them that a token reads.
void each_weight(const ExpertMatrices& experts, double share, WeightVisitor& visitor);

// Input rows of a product with experts; see kernels::ExpertLinearParams.
struct ExpertRows {
  const void* input = nullptr;
  int32_t rows_per_input = 1;
  const float* input_scale = nullptr;
  int32_t rows = 0;
  bool same_as_before = false;  // true if the rows have the same experts as in the previous product
};

// Output of a product with experts. If `mlp` is set, the products go to `products` and the activated rows to
// `output`.
struct ExpertTarget {
  void* output = nullptr;
  const kernels::MlpSpec* mlp = nullptr;
  void* products = nullptr;
};

void multiply_experts(const ForwardPass& pass, const ExpertMatrices& experts, const ExpertRows& rows,
                      const ExpertTarget& target);

}  // namespace quire
