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
// The same, to where broad products want it (arranged.cuh): `output` is arranged then. Only for many rows of
// whole blocks of 128 columns, where a thread block may have so much shared memory.
bool norm_arranges(const NormParams& params, uint32_t shared_per_block);
cudaError_t launch_norm_arranged(const NormParams& params, const int32_t* place, Launch launch);
cudaError_t launch_rope_angles(const RopeAnglesParams& params, Launch launch);
cudaError_t launch_activation(const ActivationParams& params, Launch launch);
cudaError_t launch_row_op(const RowOpParams& params, Launch launch);
// Rows of f16 in place; of the parameters neither input nor outputs count.
cudaError_t launch_norm_activations(const NormParams& params, __half* rows, Launch launch);
cudaError_t launch_expand_latent(const ExpandLatentParams& params, Launch launch);
constexpr int32_t kMostStreams = 16;
cudaError_t launch_mix_streams(const MixStreamsParams& params, Launch launch);
cudaError_t launch_scale_logits(float* logits, int64_t count, float scale, float softcap, Launch launch);
// Rows of activations on their way to where a product wants them.
struct PlacedRows {
  const __half* source = nullptr;
  int32_t source_stride = 0;
  const int32_t* order = nullptr;  // of the columns, or nullptr: as they are
  int32_t rows = 0;
  int32_t columns = 0;
  __half* target = nullptr;
  int32_t target_stride = 0;  // of one row, also where they are arranged; a multiple of 128 then
  bool arranged = false;      // as broad products want them (arranged.cuh), or rows side by side
};
// target[row][k] = source[row][order[k]]; zero for k from columns to target_stride. Of a card whose thread
// blocks may have so much shared memory.
cudaError_t launch_gather(const PlacedRows& rows, uint32_t shared_per_block, Launch launch);
// Arranged, whatever `arranged` says. All columns up to target_stride are read, in their order.
cudaError_t launch_arrange(const PlacedRows& rows, Launch launch);

// What a product of f16 or f32 still needs: bias, and its place.
struct FinishedRows {
  const float* source = nullptr;  // [rows, columns], side by side
  const float* bias = nullptr;    // [columns]
  int32_t rows = 0;
  int32_t columns = 0;
  // One of the three is set.
  __half* output = nullptr;
  float* residual = nullptr;  // added to
  float* output_f32 = nullptr;
  int32_t stride = 0;  // of the output
};
cudaError_t launch_finish_rows(const FinishedRows& rows, Launch launch);

// Once per device, with the device current: the kernels go to the card.
cudaError_t setup_pointwise(int shared_limit);
cudaError_t setup_rows();

}  // namespace quire::kernels
