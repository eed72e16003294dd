#include "core/layers/differential.h"

#include <cmath>
#include <numeric>

#include "core/layers/layer_builder.h"
#include "core/layers/rows.h"

namespace quire {

using kernels::Scratch;

void build(const DifferentialPart& part, int32_t head_columns, LayerBuilder& builder,
           DifferentialLayer& layer) {
  const auto power = [&](const VectorPart& a, const VectorPart& b) {
    const std::vector<float> left = builder.host_vector(a);
    const std::vector<float> right = builder.host_vector(b);
    return std::exp(std::inner_product(left.begin(), left.end(), right.begin(), 0.0));
  };
  layer.lambda = static_cast<float>(power(part.query_1, part.key_1) - power(part.query_2, part.key_2) +
                                    double{part.initial});
  layer.norm.columns = head_columns;
  layer.norm.epsilon = part.epsilon;
}

void needs(const DifferentialPart&, int32_t columns, Needs& all) {
  all.scratch(Scratch::other, columns / 2);
  all.scratch(Scratch::row, columns / 2);
}

uint64_t mechanisms(const DifferentialPart&) {
  return kernels::kMechanismDifferential;
}

const void* DifferentialLayer::forward(const ForwardPass& pass, int32_t columns) const {
  const kernels::Workspace& space = pass.workspace;
  float* difference = space.at(Scratch::other);
  kernels::RowOpParams params;
  params.op = kernels::RowOp::differ;
  params.target = difference;
  params.a = space.attention;
  params.a_is_activation = true;
  params.a_stride = columns;
  params.columns = columns / 2;
  params.factor = lambda;
  run_row_op(pass, params);
  void* normed = space.at(Scratch::row);
  norm_rows(pass, norm, difference, normed, pass.num_tokens() * (columns / 2 / norm.columns));
  return normed;
}

}  // namespace quire
