#include "core/layers/expert_matrices.h"

#include "core/layers/layer_builder.h"

namespace quire {

void ExpertMatrices::resize(int32_t num_experts, LayerBuilder& builder) {
  matrices.resize(static_cast<size_t>(num_experts));
  builder.after_prepare([this] {
    handles.clear();
    for (const PreparedWeight& matrix : matrices) handles.push_back(matrix.get());
  });
}

void each_weight(const ExpertMatrices& experts, double share, WeightVisitor& visitor) {
  for (const PreparedWeight& matrix : experts.matrices) visitor.matrix(matrix, share);
}

void multiply_experts(const ForwardPass& pass, const ExpertMatrices& experts, const ExpertRows& rows,
                      const ExpertTarget& target) {
  kernels::ExpertLinearParams params;
  params.experts = experts.handles.data();
  params.num_experts = gsl::narrow<int32_t>(experts.handles.size());
  params.expert_of_row = reinterpret_cast<const int32_t*>(pass.workspace.at(kernels::Scratch::chosen));
  params.input = rows.input;
  params.rows_per_input = rows.rows_per_input;
  params.input_scale = rows.input_scale;
  params.rows = rows.rows;
  params.same_rows = rows.same_as_before;
  params.output = target.output;
  params.mlp = target.mlp;
  params.products = target.products;
  pass.context.check(pass.context.table().expert_linear(pass.context.handle(), &params), "experts");
}

}  // namespace quire
