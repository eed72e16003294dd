// Kernels that turn stored matrices into tiles, and tiles back into f16.
#pragma once

#include <cstdint>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "kernels/cuda/matrix.h"

namespace quire::kernels {

// Where the rows of one step lie in a stored EXL2 matrix.
struct StepSource {
  int32_t bits = 0;
  int32_t packed_row = 0;  // exl2: first of `bits` packed rows
  uint32_t tile_byte = 0;  // in the strip
};

// A stored matrix as any element of it can be read; all pointers on the device.
struct StoredMatrix {
  TileKind kind = TileKind::dense;
  int32_t num_rows = 0;
  int32_t num_columns = 0;                // that are used
  int32_t padded_columns = 0;             // as stored
  const int32_t* column_order = nullptr;  // [num_columns] or nullptr
  const uint32_t* codes = nullptr;
  const uint32_t* scales = nullptr;       // exl2 scale indices; gptq zeros
  const uint16_t* group_scale = nullptr;  // exl2: per group; gptq: [groups, padded_columns]
  const int32_t* row_group = nullptr;     // [num_rows]
  const int32_t* row_source = nullptr;    // [num_rows] stored row, or nullptr (gptq sorted by group)
  const int32_t* row_bits = nullptr;      // exl2: bits | row in group << 8
  const int32_t* row_packed = nullptr;    // exl2: first packed row of the row's group
  int32_t zero_offset = 0;
  float prescale = 1.0f;
  const void* dense = nullptr;
  int32_t dense_dtype = 0;  // a DType
};

cudaError_t repack_exl2(const StoredMatrix& source, const StepSource* steps, const Part& part, int num_steps,
                        uint8_t* codes, cudaStream_t stream);
cudaError_t repack_exl2_scales(const StoredMatrix& source, const Part& part, uint8_t* scales,
                               cudaStream_t stream);
cudaError_t repack_gptq(const StoredMatrix& source, const Part& part, int num_steps, uint8_t* codes,
                        uint8_t* scales, const int32_t* group_first_row, cudaStream_t stream);
// Any stored matrix as f16 tiles.
cudaError_t repack_dense(const StoredMatrix& source, const Part& part, int num_steps, uint8_t* codes,
                         cudaStream_t stream);

// Columns [first_column, first_column + columns) of a part, counted within it and whole strips, as f16
// [columns, row_stride], rows in stored order; elements from num_rows to row_stride are zero.
cudaError_t expand_columns(const Matrix& matrix, int part, int first_strip, int num_strips, __half* target,
                           int row_stride, cudaStream_t stream);

}  // namespace quire::kernels
