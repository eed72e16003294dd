// Kernels that read each activation once: embedding, norms, rotary angles, activations, gathers.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "kernels/interface/op_params.h"

namespace quire::kernels {

// Stream of a launch, and whether it uses programmatic dependent launch.
struct Launch {
  cudaStream_t stream = nullptr;
  bool dependent = false;
};

cudaError_t launch_embed(const EmbedParams& params, const void* table, DType dtype, int columns,
                         Launch launch);
// `place` [columns] or nullptr: column c of the result goes to place[c], the row order of the next matrix.
cudaError_t launch_norm(const NormParams& params, const int32_t* place, Launch launch);
// Norm with arranged output, as broad products read it (arranged.cuh). norm_arranges returns true only for
// many rows of whole blocks of 128 columns, and if a thread block may use enough shared memory.
bool norm_arranges(const NormParams& params, uint32_t shared_per_block);
cudaError_t launch_norm_arranged(const NormParams& params, const int32_t* place, Launch launch);
cudaError_t launch_rope_angles(const RopeAnglesParams& params, Launch launch);
cudaError_t launch_activation(const ActivationParams& params, Launch launch);
cudaError_t launch_row_op(const RowOpParams& params, Launch launch);
// Normalises rows of f16 in place; input and outputs in the parameters are ignored.
cudaError_t launch_norm_activations(const NormParams& params, __half* rows, Launch launch);
cudaError_t launch_expand_latent(const ExpandLatentParams& params, Launch launch);
constexpr int32_t kMostStreams = 16;
cudaError_t launch_mix_streams(const MixStreamsParams& params, Launch launch);
cudaError_t launch_collapse_streams(const CollapseStreamsParams& params, Launch launch);
cudaError_t launch_expand_streams(const ExpandStreamsParams& params, Launch launch);
cudaError_t launch_scale_logits(float* logits, int64_t count, float scale, float softcap, Launch launch);
// Rows of activations to be converted to the layout that a product reads.
struct PlacedRows {
  const __half* source = nullptr;
  int32_t source_stride = 0;
  const int32_t* order = nullptr;  // order of the columns, or nullptr: unchanged
  int32_t rows = 0;
  int32_t columns = 0;
  __half* target = nullptr;
  int32_t target_stride = 0;  // elements of a row, also if arranged; then a multiple of 128
  bool arranged = false;      // arranged for broad products (arranged.cuh), otherwise contiguous rows
};
// target[row][k] = source[row][order[k]]; zero for k from columns to target_stride. shared_per_block is the
// card's limit on the shared memory of a block.
cudaError_t launch_gather(const PlacedRows& rows, uint32_t shared_per_block, Launch launch);
// Writes arranged rows, whatever `arranged` is. All columns up to target_stride are read, in their order.
cudaError_t launch_arrange(const PlacedRows& rows, Launch launch);

// Results of a product in f32 that need a bias and a destination.
struct FinishedRows {
  const float* source = nullptr;  // [rows, columns], contiguous
  const float* bias = nullptr;    // [columns]
  int32_t rows = 0;
  int32_t columns = 0;
  // Exactly one of the three is set.
  __half* output = nullptr;
  float* residual = nullptr;  // added to
  float* output_f32 = nullptr;
  int32_t stride = 0;  // elements between rows of the output
};
cudaError_t launch_finish_rows(const FinishedRows& rows, Launch launch);

// Called once per device, with the device current: load the kernels onto the card.
cudaError_t setup_pointwise(int shared_limit);
cudaError_t setup_rows();
cudaError_t setup_streams();

}  // namespace quire::kernels
