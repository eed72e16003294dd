// Kernels that convert stored matrices to tiles, and tiles back to f16.
#pragma once

#include <cstdint>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "kernels/cuda/plan/weight_plan.h"

namespace quire::kernels {

// A stored matrix from which any element can be read; all pointers are device memory.
struct StoredMatrix {
  TileKind kind = TileKind::dense;
  int32_t num_rows = 0;
  int32_t num_columns = 0;                // number used
  int32_t padded_columns = 0;             // number stored
  const int32_t* column_order = nullptr;  // [num_columns] or nullptr
  const uint32_t* codes = nullptr;
  const uint32_t* scales = nullptr;       // exl2 scale indices
  const uint16_t* group_scale = nullptr;  // exl2: per group; gptq: [groups, padded_columns]
  float record_factor = 1.0f;             // exl2: multiplies the group scales in records
  const int32_t* row_group = nullptr;     // [num_rows]
  const int32_t* row_source = nullptr;    // [num_rows] stored row, or nullptr (coded, sorted by group)
  const int32_t* row_bits = nullptr;      // exl2: bits | row in group << 8
  const int32_t* row_packed = nullptr;    // exl2: first packed row of the row's group
  // gptq and mxfp4: see CodedSource.
  int32_t code_bits = 4;
  int64_t row_words = 0;
  int64_t column_words = 0;
  const uint32_t* zeros = nullptr;  // or nullptr
  int64_t zero_group_words = 0;
  int64_t zero_column_words = 0;
  int32_t zero_offset = 0;
  const uint8_t* exponents = nullptr;  // mxfp4: [groups, padded_columns], exponent_shift is added
  int32_t exponent_shift = 0;
  float prescale = 1.0f;
  const void* dense = nullptr;
  int32_t dense_dtype = 0;  // a DType
  // f8_e4m3: see DenseSource.
  const float* dense_scales = nullptr;
  int32_t scale_out = 1;
  int32_t scale_in = 1;
};

// Destination of a repack: strips of a part. `steps` and `scales` describe one strip, in device memory. Every
// byte of a strip is written.
struct RepackTarget {
  uint8_t* strips = nullptr;
  uint32_t strip_bytes = 0;
  int32_t num_strips = 0;
  const StepSource* steps = nullptr;
  int32_t num_steps = 0;
  const ScaleSource* scales = nullptr;
  int32_t num_scales = 0;
};

cudaError_t repack_exl2(const StoredMatrix& source, const RepackTarget& target, cudaStream_t stream);
// Repacks gptq and mxfp4. group_first_row is the first tile row of each group of the tiles, in device memory.
cudaError_t repack_coded(const StoredMatrix& source, const RepackTarget& target,
                         const int32_t* group_first_row, cudaStream_t stream);
// Repacks the codes of an f8_e4m3 matrix.
cudaError_t repack_fp8(const StoredMatrix& source, const RepackTarget& target, cudaStream_t stream);
// Destination of f8_e4m3 in the tiles of float8_shape.h; a part has the columns from `first_column` on.
struct Float8Target {
  uint8_t* tiles = nullptr;  // zeros before the first part
  int32_t num_blocks = 0;
  int32_t first_column = 0;
  int32_t num_columns = 0;  // total of all parts
  bool paired = false;
};
cudaError_t repack_float8(const StoredMatrix& source, const Float8Target& target, cudaStream_t stream);
// Repacks any stored matrix as f16 tiles.
cudaError_t repack_dense(const StoredMatrix& source, const RepackTarget& target, cudaStream_t stream);

// Consecutive strips of a part.
struct Slab {
  int32_t part = 0;
  int32_t first_strip = 0;
  int32_t num_strips = 0;
};
// Expands a slab to f16 [columns, row_stride], rows in stored order; each weight is rounded to f16, elements
// from num_rows to row_stride are zero.
cudaError_t expand_columns(const Matrix& matrix, const Slab& slab, __half* target, int row_stride,
                           cudaStream_t stream);

}  // namespace quire::kernels
