// Kernels around the experts' products (MoE): the router's choice, sorting rows by expert, and the weighted
// sum of results.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "kernels/cuda/plan/matrix.h"
#include "kernels/cuda/pointwise/pointwise.h"
#include "kernels/interface/op_params.h"

namespace quire::kernels {

// Rows sorted into tiles of one expert each.
struct ExpertTiles {
  int32_t tile_rows = 0;
  int32_t num_tiles = 0;             // upper bound
  int32_t* experts = nullptr;        // [num_tiles], negative: no expert
  int32_t* rows_of_slots = nullptr;  // [num_tiles * tile_rows], negative: no row
};

cudaError_t launch_route(const RouteParams& params, Launch launch);
cudaError_t launch_combine(const CombineParams& params, Launch launch);
// Sorts rows [0, rows) into tiles. The order of an expert's rows may differ from call to call.
cudaError_t launch_sort_rows(const int32_t* expert_of_row, int rows, int num_experts,
                             const ExpertTiles& tiles, Launch launch);
// Builds the input of the products of these tiles: target [num_tiles * tile_rows, stride], each row in the
// row order of its expert's matrix, followed by zeros. Slots without a row keep their old content, which
// affects no other row. Sorted row r is input row r / rows_per_input times its scale.
struct ExpertGather {
  const __half* input = nullptr;       // [rows / rows_per_input, columns]
  const float* input_scale = nullptr;  // [rows] or nullptr
  int32_t rows_per_input = 1;
  int32_t columns = 0;
  const MatrixRecord* records = nullptr;
  int32_t record_stride = 0;
  __half* target = nullptr;
  int32_t stride = 0;
  int64_t part_stride = 0;  // elements between the inputs of one part and those of the next (EXL3)
};
cudaError_t launch_gather_experts(const ExpertGather& gather, const ExpertTiles& tiles, Launch launch);
// Does the same for EXL3 matrices, in tiles of 8 rows, and transforms the rows for each part of them.
cudaError_t launch_gather_rotated(const ExpertGather& gather, const ExpertTiles& tiles, Launch launch);

// Called once per device, with the device current.
cudaError_t setup_experts();
cudaError_t setup_gather_rotated();

}  // namespace quire::kernels
