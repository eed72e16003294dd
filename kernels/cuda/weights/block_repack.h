// Kernels that read blocks of GGUF files: their conversion to tiles and back to f16, and rows of embedding
// tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "kernels/cuda/plan/block_tiles.h"
#include "kernels/cuda/pointwise/pointwise.h"
#include "kernels/cuda/weights/weight_repack.h"
#include "kernels/interface/block_types.h"

namespace quire::kernels {

// Rows of blocks in device memory.
struct StoredBlocks {
  BlockType type = BlockType::none;
  const uint8_t* rows = nullptr;
  size_t row_bytes = 0;
  const uint16_t* grid = nullptr;         // of an IQ type, in device memory
  int32_t num_rows = 0;                   // weights of a row of blocks: rows of the matrix
  int32_t num_columns = 0;                // number used
  const int32_t* column_order = nullptr;  // [num_columns] or nullptr
};

// Finds the largest numbers of the used columns: bits of floats, which must be 0 before.
struct BlockMaximaBits {
  uint32_t scale = 0;
  uint32_t min = 0;
};
cudaError_t find_block_maxima(const StoredBlocks& source, BlockMaximaBits* maxima, cudaStream_t stream);

// Strips of a part; every byte of a strip is written.
struct BlockTarget {
  uint8_t* strips = nullptr;
  uint32_t strip_bytes = 0;
  int32_t num_strips = 0;
  int32_t num_blocks = 0;  // segments of 128 rows
  float unit = 1.0f;
};
cudaError_t repack_blocks(const StoredBlocks& source, const BlockTarget& target, cudaStream_t stream);

// Looks rows of an embedding table up; its columns are the rows of `table`.
cudaError_t launch_embed_blocks(const EmbedParams& params, const StoredBlocks& table, Launch launch);
cudaError_t setup_blocks();

// Implements expand_columns for tiles of blocks.
cudaError_t expand_block_columns(const Matrix& matrix, const Slab& slab, __half* target, int row_stride,
                                 cudaStream_t stream);

}  // namespace quire::kernels
