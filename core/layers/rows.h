// Short functions for operations on rows, used by the layers.
#pragma once

#include "core/layers/forward_pass.h"
#include "core/layers/norm.h"
#include "core/tensor/shard_columns.h"

namespace quire {

// target = input W, or target += input W. If `columns` are split, each shard computes its own and the shards
// gather all of them.
void multiply_rows(const ForwardPass& pass, const PreparedWeight& weight, const void* input, float* target,
                   int32_t rows, const ShardColumns& columns = {});
void multiply_rows_onto(const ForwardPass& pass, const PreparedWeight& weight, const void* input,
                        float* target, int32_t rows, const ShardColumns& columns = {});

// Gathers the columns that the shards have written to Scratch::slice into `target`.
void gather_slices(const ForwardPass& pass, const ShardColumns& columns, int32_t rows, kernels::DType dtype,
                   void* target);

// target = input W, in the activation dtype.
void multiply_rows_to_activations(const ForwardPass& pass, const PreparedWeight& weight, const void* input,
                                  void* target);

// Returns f32 rows in the activation dtype, as products and activations read them. This is `rows` itself if
// that dtype is f32, otherwise a copy in Scratch::rounded, which is valid until the next call.
void* rounded_rows(const ForwardPass& pass, float* rows, int32_t columns);

// norm_rows: output = norm(input), in the activation dtype. norm_rows_f32: the same in f32; output may be
// input. norm_rows_onto: target += norm(input).
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
// target = a. A stride is the distance between rows in elements.
void copy_rows(const ForwardPass& pass, float* target, int32_t target_stride, const float* a,
               int32_t a_stride, int32_t columns);

}  // namespace quire
