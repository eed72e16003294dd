// Short words for operations on rows, for the layers that are composed of them.
#pragma once

#include "core/layers/forward_pass.h"
#include "core/layers/norm.h"
#include "core/tensor/shard_columns.h"

namespace quire {

// target = input W, or target += input W. Of a shard that has some columns of W: all shards gather them.
void multiply_rows(const ForwardPass& pass, const PreparedWeight& weight, const void* input, float* target,
                   int32_t rows, const ShardColumns& columns = {});
void multiply_rows_onto(const ForwardPass& pass, const PreparedWeight& weight, const void* input,
                        float* target, int32_t rows, const ShardColumns& columns = {});

// target = the columns that all shards have left in Scratch::slice.
void gather_slices(const ForwardPass& pass, const ShardColumns& columns, int32_t rows, kernels::DType dtype,
                   void* target);

// The same into rows of the activation dtype.
void multiply_rows_to_activations(const ForwardPass& pass, const PreparedWeight& weight, const void* input,
                                  void* target);

// Rows of f32 as a product or an activation reads them: themselves, or in Scratch::rounded until the next.
void* rounded_rows(const ForwardPass& pass, float* rows, int32_t columns);

// output = norm(input), of the activation dtype or of f32, where it may be the input; or target +=
// norm(input).
void norm_rows(const ForwardPass& pass, const NormLayer& norm, const float* input, void* output,
               int32_t rows);
void norm_rows_f32(const ForwardPass& pass, const NormLayer& norm, const float* input, float* output,
                   int32_t rows);
void norm_rows_onto(const ForwardPass& pass, const NormLayer& norm, const float* input, float* target,
                    int32_t rows);

void run_row_op(const ForwardPass& pass, const kernels::RowOpParams& params);
// target = target * factor.
void scale_rows(const ForwardPass& pass, float* target, int32_t columns, float factor);
// target += a * factor.
void add_rows(const ForwardPass& pass, float* target, const float* a, int32_t columns, float factor = 1.0f);
// target = a * factor; strides from row to row.
void copy_rows(const ForwardPass& pass, float* target, int32_t target_stride, const float* a,
               int32_t a_stride, int32_t columns);

}  // namespace quire
