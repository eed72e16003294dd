// Conversion of EXL3 matrices to tiles on the card, and back to values.
#pragma once

#include <cstdint>
#include <cuda_runtime.h>

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/plan/weight_plan.h"

namespace quire::kernels {

// Tiles as in a file, in device memory.
struct StoredTrellis {
  const uint16_t* tiles = nullptr;
  int32_t half_bits = 0;
  int32_t column_tiles = 0;             // of a row of tiles
  const int32_t* transforms = nullptr;  // [transforms kept] number in the file
};

// Strips of a part; every byte of a strip is written.
struct TrellisTarget {
  uint8_t* strips = nullptr;
  uint32_t strip_bytes = 0;
  int32_t num_strips = 0;
  int32_t num_blocks = 0;  // segments of 128 rows
};
cudaError_t repack_trellis(const StoredTrellis& source, const TrellisTarget& target, cudaStream_t stream);

// Writes the values of a part's strips between the transforms, [32 * num_strips, 128 * num_blocks] f16, rows
// in the order of the inputs.
cudaError_t expand_trellis(const Matrix& matrix, int32_t part, int32_t first_strip, int32_t num_strips,
                           void* target, cudaStream_t stream);

// Prepares a part whose strips have memory, with trellis_terms_bytes of memory at `terms`.
Status prepare_trellis(Device& device, StagingLease& stage, const PartPlan& plan, void* terms, Part& part);

// Writes the values of a weight's group of this kind to [num_rows, num_columns] floats.
Status dequantize_trellis(Device& device, const Weight& weight, const WeightGroup& group, float* host);

}  // namespace quire::kernels
