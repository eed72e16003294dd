// The router's product and the choice of experts at once.
#pragma once

#include "kernels/cuda/gemm/gemm.h"
#include "kernels/cuda/pointwise/pointwise.h"

namespace quire::kernels {

struct ChoiceArguments {
  GemmArguments
      product;  // output_f32: the logits. What its norm gives, if there is one, goes to norm.output, too
  RouteParams route;  // of these logits
};

// Whether one kernel makes the choice of so many tokens. Only where the card has clusters.
bool choice_fits(const CardLimits& card, const Matrix& router, const GemmShape& shape, int32_t rows,
                 int32_t num_experts);
cudaError_t launch_choose(const ChoiceArguments& arguments, Launch launch);

// Once per device, with the device current: raises the shared-memory limits.
cudaError_t setup_choose(int shared_limit);

}  // namespace quire::kernels
