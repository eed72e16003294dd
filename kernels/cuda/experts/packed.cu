// Packed experts: products of 16-bit activations, as high and low signed bytes, with the codes of the CPU's
// panels. The sums of a segment (up to 128 rows of one group) are exact integers, so the order in which the
// tensor cores add is of no account. Then one rounded product and one fused multiply-add follow for each
// segment, in the order of the CPU (kernels/cpu/isa/quant_lanes.h).
//
// A block of threads multiplies 64 rows by 64 columns: each of its four warps has a panel of 16 columns. A
// span of 128 rows is a stage of two: the codes of the 64 rows (16 KB) and those of the four panels (up to
// 8 KB). With two stages four blocks share a multiprocessor of 227 KB.
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/experts/packed.h"
#include "kernels/cuda/experts/packed_activation.cuh"

namespace quire::kernels {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = 32 * kWarps;
constexpr int kRowTiles = kPackedTileRows / 16;  // of the tensor cores
constexpr int kColumnTiles = kPackedColumns / 8;
constexpr int kPlaneBytes = kPackedTileRows * kSpanRows;  // the high or the low bytes of a stage
constexpr int kPanelBytes = kSpanRows * kPackedColumns;   // the codes of a panel in a span, at most
constexpr int kStageBytes = 2 * kPlaneBytes + kWarps * kPanelBytes;
constexpr int kStages = 2;
static_assert(kStages * kStageBytes <= 48 << 10);  // shared memory that a kernel has by default

constexpr uint32_t kEveryByte = 0x01010101U;

// Returns the codes of quad `quad` of a block's column (kernels/cpu/code_layout.h): rows 4 quad to 4 quad + 3
// in the bytes of a word. `word` is the address of the column's first word in shared memory.
template <int kBits>
__device__ __forceinline__ uint32_t codes_of_quad(uint32_t word, int quad) {
  const auto load = [word](int index) { return load_shared_4(word + index * kPackedColumns * 4); };
  const auto low = [](uint32_t x, int bits) { return x & ((1U << bits) - 1U) * kEveryByte; };
  if constexpr (kBits == 2 || kBits == 4 || kBits == 8) {
    constexpr int kWhole = 8 / kBits;  // codes of a byte
    return low(load(quad / kWhole) >> (kBits * (quad % kWhole)), kBits);
  } else if constexpr (kBits == 3) {
    if (quad < 6) return low(load(quad / 2) >> (3 * (quad % 2)), 3);
    return low(load(quad - 6) >> 6, 2) | low(load(2) >> quad, 1) << 2;
  } else if constexpr (kBits == 5) {
    if (quad < 5) return low(load(quad), 5);
    if (quad < 7) return low(load(2 * quad - 10) >> 5, 3) | low(load(2 * quad - 9) >> 5, 2) << 3;
    return low(load(4) >> 5, 3) | low(load(1) >> 7, 1) << 3 | low(load(3) >> 7, 1) << 4;
  } else {
    if (quad < 6) return low(load(quad), 6);
    const int first = 3 * (quad - 6);
    return low(load(first) >> 6, 2) | low(load(first + 1) >> 6, 2) << 2 | low(load(first + 2) >> 6, 2) << 4;
  }
}

// Returns the codes minus 2^(kBits - 1), as signed bytes.
template <int kBits>
__device__ __forceinline__ uint32_t centred(uint32_t codes) {
  return (codes + (0x80U - (1U << (kBits - 1))) * kEveryByte) ^ 0x80U * kEveryByte;
}

struct Sums {
  int32_t high[kRowTiles][kColumnTiles][4];
  int32_t low[kRowTiles][kColumnTiles][4];
};

// Addresses in shared memory.
struct Stage {
  uint32_t rows;   // [2 planes][64 rows][128 bytes], pieces of 16 bytes exchanged by the low bits of the row
  uint32_t panel;  // of the warp
};

// Returns the address of piece `piece` of 16 bytes of a row.
__device__ __forceinline__ uint32_t piece_of_row(uint32_t rows, int plane, int row, int piece) {
  return rows + plane * kPlaneBytes + row * kSpanRows + ((piece ^ (row & 7)) << 4);
}

// Adds the products of a block of 32 rows, number `block` of its span, whose codes begin at `word`.
template <int kBits>
__device__ __forceinline__ void add_block(const Stage& stage, uint32_t word, int block, int lane,
                                          Sums& sums) {
  uint32_t b[kColumnTiles][2];
#pragma unroll
  for (int n = 0; n < kColumnTiles; ++n) {
    const uint32_t column = word + (n * 8 + lane / 4) * 4;
    b[n][0] = centred<kBits>(codes_of_quad<kBits>(column, lane % 4));
    b[n][1] = centred<kBits>(codes_of_quad<kBits>(column, lane % 4 + 4));
  }
  const int row = lane % 16, piece = 2 * block + lane / 16;
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {
    uint32_t high[4], low[4];
    load_matrices(high, piece_of_row(stage.rows, 0, 16 * m + row, piece));
    load_matrices(low, piece_of_row(stage.rows, 1, 16 * m + row, piece));
#pragma unroll
    for (int n = 0; n < kColumnTiles; ++n) {
      mma_16x8x32_s8(sums.high[m][n], high, b[n][0], b[n][1]);
      mma_16x8x32_s8(sums.low[m][n], low, b[n][0], b[n][1]);
    }
  }
}

template <int kBits>
__device__ __forceinline__ void add_segment(const Stage& stage, uint32_t word, int first_block,
                                            int num_blocks, int lane, Sums& sums) {
  for (int i = 0; i < num_blocks; ++i)
    add_block<kBits>(stage, word + i * kBits * kPackedColumns * 4, first_block + i, lane, sums);
}

__device__ __forceinline__ void add_segment(int bits, const Stage& stage, uint32_t word, int first_block,
                                            int num_blocks, int lane, Sums& sums) {
  switch (bits) {
    case 2:
      return add_segment<2>(stage, word, first_block, num_blocks, lane, sums);
    case 3:
      return add_segment<3>(stage, word, first_block, num_blocks, lane, sums);
    case 4:
      return add_segment<4>(stage, word, first_block, num_blocks, lane, sums);
    case 5:
      return add_segment<5>(stage, word, first_block, num_blocks, lane, sums);
    case 6:
      return add_segment<6>(stage, word, first_block, num_blocks, lane, sums);
    default:
      return add_segment<8>(stage, word, first_block, num_blocks, lane, sums);
  }
}

__device__ __forceinline__ const PackedMatrix* matrices_of(const PackedBatch& batch, const PackedTile& tile) {
  const uint8_t* record = batch.records + static_cast<size_t>(tile.record) * kPackedAlignment;
  return reinterpret_cast<const PackedRecord*>(record)->matrices;
}

// Output of a part: row r of the batch goes to row r, or to its row of the call.
struct PackedTarget {
  float* output = nullptr;
  int32_t columns = 0;
  const int32_t* rows = nullptr;  // sorted rows, or nullptr
};

// Product of a tile with a panel per warp.
class TileProduct {
 public:
  __device__ TileProduct(const PackedBatch& batch, const PackedMatrix& matrix, const PackedTile& tile,
                         int panel)
      : batch_(batch),
        matrix_(matrix),
        rows_(batch.inputs[matrix.order]),
        first_row_(tile.first_row - batch.first_row),
        num_rows_(tile.num_rows),
        panel_(panel),
        lane_(static_cast<int>(threadIdx.x & 31)) {
    extern __shared__ __align__(128) uint8_t stages[];
    shared_ = shared_address(stages);
  }

  __device__ void run() {
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m)
      for (int n = 0; n < kColumnTiles; ++n)
        for (int i = 0; i < 4; ++i) totals_[m][n][i] = 0.0f;
    load_span(0);
    commit_copies();
    int segment = 0;
    for (int span = 0; span < matrix_.num_spans; ++span) {
      if (span + 1 < matrix_.num_spans) load_span(span + 1);
      commit_copies();
      wait_for_copies<1>();
      __syncthreads();
      if (has_panel()) multiply_span(span, segment);
      __syncthreads();
    }
  }

  __device__ void write(const PackedTarget& target, int first_column) const {
    if (!has_panel()) return;
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = 16 * m + 8 * half + lane_ / 4;
        if (row >= num_rows_) continue;
        const int of_batch = first_row_ + row;
        const size_t to = target.rows != nullptr ? target.rows[batch_.first_row + of_batch] : of_batch;
        write_row(target.output + to * target.columns + first_column, totals_[m], half);
      }
    }
  }

 private:
  __device__ bool has_panel() const {
    return panel_ < matrix_.num_panels;
  }
  __device__ Stage stage_of(int span) const {
    const uint32_t first = shared_ + static_cast<uint32_t>(span % kStages * kStageBytes);
    const int warp = static_cast<int>(threadIdx.x) / 32;
    return {first, first + static_cast<uint32_t>(2 * kPlaneBytes + warp * kPanelBytes)};
  }

  // Starts the copies of a span. Rows beyond the tile are those of its last row.
  __device__ void load_span(int span) {
    const Stage stage = stage_of(span);
    for (int i = static_cast<int>(threadIdx.x); i < kPackedTileRows * 16; i += kThreads) {
      const int row = i / 16, piece = i % 16;
      const int from = first_row_ + min(row, num_rows_ - 1);
      const int8_t* codes =
          rows_.codes + (static_cast<size_t>(from) * batch_.num_spans + span) * (2 * kSpanRows) + piece * 16;
      copy_async_16(piece_of_row(stage.rows, piece / 8, row, piece % 8), codes);
    }
    if (!has_panel()) return;
    const uint32_t first = matrix_.span_words[span], end = matrix_.span_words[span + 1];
    const uint32_t* words = matrix_.codes + static_cast<size_t>(panel_) * matrix_.panel_words + first;
    for (uint32_t i = static_cast<uint32_t>(lane_) * 4; i < end - first; i += 32 * 4)
      copy_async_16(stage.panel + i * 4, words + i);
  }

  __device__ void multiply_span(int span, int& segment) {
    const Stage stage = stage_of(span);
    const int left = matrix_.num_blocks - span * kSpanBlocks;
    const int num_blocks = min(left, kSpanBlocks);
    uint32_t word = stage.panel;
    for (int block = 0; block < num_blocks;) {
      const PackedSegment of = matrix_.segments[segment++];
      float scales[kColumnTiles][2];
      load_scales(of.group, scales);
      Sums sums = {};
      add_segment(of.bits, stage, word, block, of.num_blocks, lane_, sums);
      add_to_totals(span, sums, scales);
      block += of.num_blocks;
      word += static_cast<uint32_t>(of.num_blocks * of.bits * kPackedColumns * 4);
    }
  }

  // Loads the scales of the columns that this thread computes.
  __device__ void load_scales(int group, float (&scales)[kColumnTiles][2]) const {
    const uint8_t* nibbles =
        matrix_.nibbles + (static_cast<size_t>(panel_) * matrix_.num_groups + group) * (kPackedColumns / 2);
    const float* table = matrix_.scale_table + group * kPackedColumns;
#pragma unroll
    for (int n = 0; n < kColumnTiles; ++n) {
      const int pair = nibbles[4 * n + lane_ % 4];
      scales[n][0] = table[pair & 15];
      scales[n][1] = table[pair >> 4];
    }
  }

  __device__ void add_to_totals(int span, const Sums& sums, const float (&scales)[kColumnTiles][2]) {
    const float* of_rows = rows_.scales + static_cast<size_t>(span) * batch_.num_rows + first_row_;
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
      float row_scales[2];
#pragma unroll
      for (int half = 0; half < 2; ++half)
        row_scales[half] = of_rows[min(16 * m + 8 * half + lane_ / 4, num_rows_ - 1)];
#pragma unroll
      for (int n = 0; n < kColumnTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int dot = (sums.high[m][n][i] << 8) + sums.low[m][n][i];
          const float product = __fmul_rn(__int2float_rn(dot), row_scales[i / 2]);
          totals_[m][n][i] = __fmaf_rn(product, scales[n][i % 2], totals_[m][n][i]);
        }
      }
    }
  }

  __device__ void write_row(float* row, const float (&totals)[kColumnTiles][4], int half) const {
#pragma unroll
    for (int n = 0; n < kColumnTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int column = panel_ * kPackedColumns + 8 * n + lane_ % 4 * 2 + i;
        if (column >= matrix_.num_out) continue;
        const float total = totals[n][2 * half + i];
        row[column] = matrix_.bias != nullptr ? __fadd_rn(total, matrix_.bias[column]) : total;
      }
    }
  }

  const PackedBatch& batch_;
  const PackedMatrix& matrix_;
  const PackedRows& rows_;
  const int first_row_;  // of the batch
  const int num_rows_;
  const int panel_;
  const int lane_;
  uint32_t shared_ = 0;
  float totals_[kRowTiles][kColumnTiles][4];
};

// Blocks along x are groups of four panels, part after part; along y tiles.
__global__ void __launch_bounds__(kThreads, 3)
    packed_product_kernel(const __grid_constant__ PackedBatch batch, PackedTarget target, int first_matrix,
                          int blocks_of_part) {
  const int part = static_cast<int>(blockIdx.x) / blocks_of_part;
  const int first_panel = static_cast<int>(blockIdx.x) % blocks_of_part * kWarps;
  const PackedTile tile = batch.tiles[blockIdx.y];
  const PackedMatrix* const matrices = matrices_of(batch, tile) + first_matrix;
  TileProduct product(batch, matrices[part], tile, first_panel + static_cast<int>(threadIdx.x) / 32);
  product.run();
  product.write(target, part == 0 ? 0 : matrices[0].num_out);
}

// Quantizes the elements of a span, four in each lane, as the CPU does.
__device__ __forceinline__ void quantize_span(const float (&x)[4], float largest_code, int8_t* codes,
                                              float* scale) {
  uint32_t largest = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) largest = max(largest, __float_as_uint(x[i]) & 0x7fffffffU);
  largest = reduce_max(largest);
  const int lane = static_cast<int>(threadIdx.x & 31);
  const float size = __uint_as_float(largest);
  float of_span = 0.0f, factor = 0.0f;
  if (largest >= 0x7f800000U) {
    of_span = __int_as_float(0x7fc00000);
  } else if (size >= 0x1p-100f) {
    of_span = __fdiv_rn(size, largest_code);
    factor = __fdiv_rn(largest_code, size);
  }
  uint32_t high = 0, low = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int code = factor == 0.0f ? 0 : __float2int_rn(__fmul_rn(x[i], factor));
    high |= (static_cast<uint32_t>((code + 128) >> 8) & 255U) << (8 * i);
    low |= (static_cast<uint32_t>(code) & 255U) << (8 * i);
  }
  reinterpret_cast<uint32_t*>(codes)[lane] = high;
  reinterpret_cast<uint32_t*>(codes + kSpanRows)[lane] = low;
  if (lane == 0) *scale = of_span;
}

// Quantizes a row in the order of a matrix; element(feature) returns an input. A span that is not whole is
// filled up with zeros.
template <typename Element>
__device__ __forceinline__ void quantize_row(const PackedBatch& batch, const PackedMatrix& matrix, int row,
                                             const PackedRows& target, Element element) {
  const float largest_code = batch.bytes_only ? 127.0f : 32639.0f;
  const int lane = static_cast<int>(threadIdx.x & 31);
  for (int span = 0; span < matrix.num_spans; ++span) {
    const int k = span * kSpanRows + 4 * lane;
    float x[4] = {};
    if (k < matrix.num_blocks * kPackedRows) {
      const int4 features = *reinterpret_cast<const int4*>(matrix.features + k);
      if (features.x >= 0) x[0] = element(features.x);
      if (features.y >= 0) x[1] = element(features.y);
      if (features.z >= 0) x[2] = element(features.z);
      if (features.w >= 0) x[3] = element(features.w);
    }
    quantize_span(x, largest_code,
                  target.codes + (static_cast<size_t>(row) * batch.num_spans + span) * (2 * kSpanRows),
                  target.scales + static_cast<size_t>(span) * batch.num_rows + row);
  }
}

// Blocks along x are groups of four rows of a tile, one for each warp; along y tiles; along z orders.
__global__ void __launch_bounds__(kThreads)
    quantize_inputs_kernel(const __grid_constant__ PackedBatch batch,
                           const __grid_constant__ PackedInputs inputs) {
  const PackedTile tile = batch.tiles[blockIdx.y];
  const int of_tile = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32;
  const int order = static_cast<int>(blockIdx.z);
  const PackedMatrix& matrix = matrices_of(batch, tile)[order];
  if (of_tile >= tile.num_rows || matrix.order != order) return;
  const int sorted = tile.first_row + of_tile, row = batch.sorted_rows[sorted];
  const float* input = inputs.input + static_cast<size_t>(row / inputs.num_chosen) * inputs.num_in;
  const float factor = inputs.input_scale != nullptr ? inputs.input_scale[row] : 1.0f;
  quantize_row(batch, matrix, sorted - batch.first_row, batch.inputs[order],
               [&](int feature) { return __fmul_rn(input[feature], factor); });
}

__global__ void __launch_bounds__(kThreads)
    quantize_activated_kernel(const __grid_constant__ PackedBatch batch, const __grid_constant__ MlpSpec mlp,
                              const float* products, int columns) {
  const PackedTile tile = batch.tiles[blockIdx.y];
  const int of_tile = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32;
  if (of_tile >= tile.num_rows) return;
  const int row = tile.first_row + of_tile - batch.first_row;
  const float* gate = products + static_cast<size_t>(row) * columns;
  const float* up = gate + mlp.intermediate;
  quantize_row(batch, matrices_of(batch, tile)[kPackedDown], row, batch.inputs[0], [&](int feature) {
    return packed::activated(mlp, gate[feature], mlp.gated ? up[feature] : 0.0f);
  });
}

// Blocks along y are tokens.
__global__ void __launch_bounds__(kThreads) sum_packed_kernel(const __grid_constant__ PackedSum p) {
  const size_t token = blockIdx.y;
  const size_t columns = p.columns;
  const int column = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (column >= p.columns) return;
  float sum = 0.0f;
  for (int i = 0; i < p.num_chosen; ++i) {
    const size_t row = token * p.num_chosen + i;
    const float weight = p.weights != nullptr ? p.weights[row] : 1.0f;
    sum = __fadd_rn(sum, __fmul_rn(weight, p.outputs[row * columns + column]));
  }
  p.sums[token * columns + column] = sum;
}

cudaError_t multiply(const PackedBatch& batch, const PackedTarget& target, int first_matrix, int num_parts,
                     int num_panels, cudaStream_t stream) {
  const int blocks_of_part = (num_panels + kWarps - 1) / kWarps;
  return launch_kernel(
      packed_product_kernel,
      dim3(static_cast<unsigned>(blocks_of_part * num_parts), static_cast<unsigned>(batch.num_tiles)),
      dim3(kThreads), size_t{kStages} * kStageBytes, stream, false, batch, target, first_matrix,
      blocks_of_part);
}

dim3 grid_of_rows(const PackedBatch& batch, int32_t depth) {
  return dim3(kPackedTileRows / kWarps, static_cast<unsigned>(batch.num_tiles), static_cast<unsigned>(depth));
}

}  // namespace

cudaError_t launch_quantize_inputs(const PackedBatch& batch, const PackedInputs& inputs, int32_t num_orders,
                                   cudaStream_t stream) {
  return launch_kernel(quantize_inputs_kernel, grid_of_rows(batch, num_orders), dim3(kThreads), 0, stream,
                       false, batch, inputs);
}

cudaError_t launch_quantize_activated(const PackedBatch& batch, const MlpSpec& mlp, const float* products,
                                      int32_t columns, cudaStream_t stream) {
  return launch_kernel(quantize_activated_kernel, grid_of_rows(batch, 1), dim3(kThreads), 0, stream, false,
                       batch, mlp, products, columns);
}

cudaError_t launch_multiply_gate_up(const PackedBatch& batch, int32_t num_parts, int32_t num_panels,
                                    float* products, int32_t columns, cudaStream_t stream) {
  return multiply(batch, {products, columns, nullptr}, 0, num_parts, num_panels, stream);
}

cudaError_t launch_multiply_down(const PackedBatch& batch, int32_t num_panels, float* outputs,
                                 int32_t columns, bool sorted, cudaStream_t stream) {
  PackedTarget target = {outputs, columns, batch.sorted_rows};
  if (sorted)
    target = {outputs + static_cast<size_t>(batch.first_row) * static_cast<size_t>(columns), columns,
              nullptr};
  return multiply(batch, target, kPackedDown, 1, num_panels, stream);
}

cudaError_t launch_sum_packed(const PackedSum& sum, int32_t tokens, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>((sum.columns + kThreads - 1) / kThreads),
                  static_cast<unsigned>(tokens));
  return launch_kernel(sum_packed_kernel, grid, dim3(kThreads), 0, stream, false, sum);
}

cudaError_t setup_packed() {
  return load_kernels(packed_product_kernel, quantize_inputs_kernel, quantize_activated_kernel,
                      sum_packed_kernel);
}

}  // namespace quire::kernels
