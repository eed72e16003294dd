// The activation after the products of experts (MoE), for backends that do not fuse it into the product.
#pragma once

#include "kernels/interface/op_params.h"

namespace quire::kernels {

// Returns the parameters of the activation from `products` to `output`. Requires `mlp`.
inline ActivationParams activation_of(const ExpertLinearParams& experts) {
  ActivationParams params;
  static_cast<MlpSpec&>(params) = *experts.mlp;
  params.input = experts.products;
  params.rows = experts.rows;
  params.output = experts.output;
  return params;
}

}  // namespace quire::kernels
