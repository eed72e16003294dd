// What becomes of products of experts where a backend applies it by itself.
#pragma once

#include "kernels/interface/op_params.h"

namespace quire::kernels {

// From `products` to `output`; where `mlp` is given.
inline ActivationParams activation_of(const ExpertLinearParams& experts) {
  ActivationParams params;
  static_cast<MlpSpec&>(params) = *experts.mlp;
  params.input = experts.products;
  params.rows = experts.rows;
  params.output = experts.output;
  return params;
}

}  // namespace quire::kernels
