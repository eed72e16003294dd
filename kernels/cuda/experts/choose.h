// The router's product and the choice of experts (MoE) in one kernel.
#pragma once

#include "kernels/cuda/gemm/gemm.h"
#include "kernels/cuda/pointwise/pointwise.h"

namespace quire::kernels {

struct ChoiceArguments {
  GemmArguments
      product;  // output_f32: the logits. The result of its norm, if any, is also written to norm.output
  RouteParams route;  // choice from these logits
};

// Returns true if one kernel can choose for that many tokens. Needs a card with clusters.
bool choice_fits(const CardLimits& card, const Matrix& router, const GemmShape& shape, int32_t rows,
                 int32_t num_experts);
cudaError_t launch_choose(const ChoiceArguments& arguments, Launch launch);

// Called once per device, with the device current: raises the shared-memory limits.
cudaError_t setup_choose(int shared_limit);

}  // namespace quire::kernels
