// The choice of experts, their rows sorted, and the sum of what they give.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "kernels/cuda/plan/matrix.h"
#include "kernels/cuda/pointwise/pointwise.h"
#include "kernels/interface/op_params.h"

namespace quire::kernels {

// Rows dealt out to tiles of one expert each.
struct ExpertTiles {
  int32_t tile_rows = 0;
  int32_t num_tiles = 0;             // at most
  int32_t* experts = nullptr;        // [num_tiles] negative: none
  int32_t* rows_of_slots = nullptr;  // [num_tiles * tile_rows] negative: none
};

cudaError_t launch_route(const RouteParams& params, Launch launch);
cudaError_t launch_combine(const CombineParams& params, Launch launch);
// Tiles of the rows [0, rows). Which place of its expert's a row gets is not the same each time.
cudaError_t launch_sort_rows(const int32_t* expert_of_row, int rows, int num_experts,
                             const ExpertTiles& tiles, Launch launch);
// What the products of these tiles read: target [num_tiles * tile_rows, stride], each row in the order of its
// expert's rows, zeros after its columns; where there is none, what lies there stays, for it reaches no other
// row. Row r of those that were sorted is input row r / rows_per_input, times its scale.
struct ExpertGather {
  const __half* input = nullptr;       // [rows / rows_per_input, columns]
  const float* input_scale = nullptr;  // [rows] or nullptr
  int32_t rows_per_input = 1;
  int32_t columns = 0;
  const MatrixRecord* records = nullptr;
  int32_t record_stride = 0;
  __half* target = nullptr;
  int32_t stride = 0;
};
cudaError_t launch_gather_experts(const ExpertGather& gather, const ExpertTiles& tiles, Launch launch);

// Once per device, with the device current.
cudaError_t setup_experts();

}  // namespace quire::kernels
