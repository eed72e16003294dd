#include "core/layers/rows.h"

#include "kernels/interface/composite.h"

namespace quire {
namespace {

void run_linear(const ForwardPass& pass, const kernels::LinearParams& params) {
  pass.context.check(pass.context.table().linear(pass.context.handle(), &params), "a product");
}

kernels::NormParams norm_of(const NormLayer& norm, const float* input, int32_t rows) {
  kernels::NormParams params = norm.params();
  params.input = input;
  params.rows = rows;
  return params;
}

void run_norm(const ForwardPass& pass, const kernels::NormParams& params) {
  pass.context.check(pass.context.table().norm(pass.context.handle(), &params), "a norm");
}

}  // namespace

void multiply_rows(const ForwardPass& pass, const PreparedWeight& weight, const void* input, float* target,
                   int32_t rows, const ShardColumns& columns) {
  kernels::LinearParams params = kernels::product_of(weight.get(), input, rows);
  params.output_f32 = columns.is_split() ? pass.workspace.at(kernels::Scratch::slice) : target;
  run_linear(pass, params);
  if (columns.is_split()) gather_slices(pass, columns, rows, kernels::DType::f32, target);
}

void multiply_rows_onto(const ForwardPass& pass, const PreparedWeight& weight, const void* input,
                        float* target, int32_t rows, const ShardColumns& columns) {
  pass.context.check(
      kernels::finish_block(pass.context.handle(), {.params = kernels::product_of(weight.get(), input, rows)},
                            {nullptr, target, columns.split()},
                            {.slice = pass.workspace.at(kernels::Scratch::slice)}),
      "a product");
}

void gather_slices(const ForwardPass& pass, const ShardColumns& columns, int32_t rows, kernels::DType dtype,
                   void* target) {
  pass.context.check(kernels::gather_rows(pass.context.handle(), columns.split(),
                                          pass.workspace.at(kernels::Scratch::slice), rows, dtype, target),
                     "gathering shards");
}

void multiply_rows_to_activations(const ForwardPass& pass, const PreparedWeight& weight, const void* input,
                                  void* target) {
  kernels::LinearParams params = kernels::product_of(weight.get(), input, pass.num_tokens());
  params.output = target;
  run_linear(pass, params);
}

void* rounded_rows(const ForwardPass& pass, float* rows, int32_t columns) {
  if (pass.context.table().activation_dtype == kernels::DType::f32) return rows;
  kernels::RowOpParams params;
  params.op = kernels::RowOp::copy;
  params.target = pass.workspace.at(kernels::Scratch::rounded);
  params.target_is_activation = true;
  params.a = rows;
  params.columns = columns;
  run_row_op(pass, params);
  return params.target;
}

void norm_rows_f32(const ForwardPass& pass, const NormLayer& norm, const float* input, float* output,
                   int32_t rows) {
  kernels::NormParams params = norm_of(norm, input, rows);
  params.output_f32 = output;
  run_norm(pass, params);
}

void norm_rows(const ForwardPass& pass, const NormLayer& norm, const float* input, void* output,
               int32_t rows) {
  kernels::NormParams params = norm_of(norm, input, rows);
  params.output = output;
  run_norm(pass, params);
}

void norm_rows_onto(const ForwardPass& pass, const NormLayer& norm, const float* input, float* target,
                    int32_t rows) {
  kernels::NormParams params = norm_of(norm, input, rows);
  params.residual = target;
  run_norm(pass, params);
}

void run_row_op(const ForwardPass& pass, const kernels::RowOpParams& params) {
  kernels::RowOpParams all = params;
  if (all.rows == 0) all.rows = pass.num_tokens();
  pass.context.check(pass.context.table().row_op(pass.context.handle(), &all), "an operation on rows");
}

void scale_rows(const ForwardPass& pass, float* target, int32_t columns, float factor) {
  kernels::RowOpParams params;
  params.op = kernels::RowOp::scale;
  params.target = target;
  params.columns = columns;
  params.factor = factor;
  run_row_op(pass, params);
}

void add_rows(const ForwardPass& pass, float* target, const float* a, int32_t columns, float factor) {
  kernels::RowOpParams params;
  params.op = kernels::RowOp::add;
  params.target = target;
  params.a = a;
  params.columns = columns;
  params.factor = factor;
  run_row_op(pass, params);
}

void copy_rows(const ForwardPass& pass, float* target, int32_t target_stride, const float* a,
               int32_t a_stride, int32_t columns) {
  kernels::RowOpParams params;
  params.op = kernels::RowOp::copy;
  params.target = target;
  params.target_stride = target_stride;
  params.a = a;
  params.a_stride = a_stride;
  params.columns = columns;
  run_row_op(pass, params);
}

}  // namespace quire
