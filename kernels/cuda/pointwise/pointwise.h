// Kernels that touch each activation once: embedding, norms, rotary angles, activations, gathers.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "kernels/interface/op_params.h"

namespace quire::kernels {

// How kernels are issued.
struct Launch {
  cudaStream_t stream = nullptr;
  bool dependent = false;
};

cudaError_t launch_embed(const EmbedParams& params, const void* table, DType dtype, int columns,
                         Launch launch);
// `place` [columns], or nullptr: column c of the result goes to place[c], the row order of the next matrix.
cudaError_t launch_norm(const NormParams& params, const int32_t* place, Launch launch);
cudaError_t launch_rope_angles(const RopeAnglesParams& params, Launch launch);
cudaError_t launch_activation(const ActivationParams& params, Launch launch);
cudaError_t launch_row_op(const RowOpParams& params, Launch launch);
// Rows of f16 in place; of the parameters neither input nor outputs count.
cudaError_t launch_norm_activations(const NormParams& params, __half* rows, Launch launch);
cudaError_t launch_expand_latent(const ExpandLatentParams& params, Launch launch);
constexpr int32_t kMostStreams = 16;
cudaError_t launch_mix_streams(const MixStreamsParams& params, Launch launch);
cudaError_t launch_scale_logits(float* logits, int64_t count, float scale, float softcap, Launch launch);
// target[row][k] = source[row][order[k]], or source[row][k] where order is nullptr; zero for k from columns
// to target_stride. Where `tiles` is not 0, arranged.
cudaError_t launch_gather(const __half* source, int source_stride, const int32_t* order, int rows,
                          int columns, __half* target, int target_stride, int tiles, Launch launch);
// Rows of num_blocks times 128 columns as broad products of tiles of `tiles` times 8 tokens want them:
// [tile][block of 128 rows of K] as they lie in a stage.
cudaError_t launch_arrange(const __half* source, int source_stride, int rows, int num_blocks, int tiles,
                           __half* target, Launch launch);
// What a product of f16 or f32 [rows, columns] still needs: bias, and its place. Source f32.
cudaError_t launch_finish_rows(const float* source, int source_stride, const float* bias, int rows,
                               int columns, __half* output, float* residual, float* output_f32, int stride,
                               Launch launch);

// Once per device, with the device current: the kernels go to the card.
cudaError_t setup_pointwise();
cudaError_t setup_rows();

}  // namespace quire::kernels
