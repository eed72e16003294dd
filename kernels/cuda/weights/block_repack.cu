// Long kernels: a block is read by one thread, which happens once per load.
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/weights/block_repack.h"
#include "kernels/cuda/weights/pack_tile.cuh"
#include "kernels/cuda/weights/stored_blocks.cuh"

namespace quire::kernels {
namespace {

constexpr int kThreads = 128;
constexpr int kUnitRows = kMaxBlockWeights;  // rows that a thread block repacks: two segments
constexpr int kUnitSegments = kUnitRows / kBlockRows;
constexpr int kExpandWarps = 4;
constexpr int kEmbedThreads = 256;
constexpr int kEmbedBlocks = 8;  // blocks of a row that a thread block decodes

// What kernels need of a type's form.
struct BlockRules {
  int32_t weights;  // of a block
  int32_t bytes;
  int32_t group;
  BlockTerms terms;
  int32_t zero;
  float factor;
};

BlockRules rules_of(BlockType type) {
  const BlockShape& shape = block_shape(type);
  const BlockForm& form = block_form(type);
  return {shape.weights, shape.bytes, form.group, form.terms, form.zero, form.factor};
}

__device__ __forceinline__ const uint8_t* block_at(const StoredBlocks& m, const BlockRules& rules, int column,
                                                   int row) {
  const int stored = m.column_order != nullptr ? m.column_order[column] : column;
  return m.rows + static_cast<size_t>(stored) * m.row_bytes +
         static_cast<size_t>(row / rules.weights) * rules.bytes;
}

__device__ __forceinline__ void keep_largest(uint32_t* largest, float value) {
  const float magnitude = fabsf(value);
  if (magnitude <= 3.4028235e38f && magnitude > 0.0f) atomicMax(largest, __float_as_uint(magnitude));
}

__global__ void __launch_bounds__(kThreads)
    block_maxima_kernel(StoredBlocks m, BlockRules rules, BlockMaximaBits* maxima) {
  const int blocks_of_column = m.num_rows / rules.weights;
  const int64_t index = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (index >= static_cast<int64_t>(blocks_of_column) * m.num_columns) return;
  const int column = static_cast<int>(index / blocks_of_column);
  const int row = static_cast<int>(index % blocks_of_column) * rules.weights;
  BlockCodes block;
  read_block_with(m.grid, m.type, block_at(m, rules, column, row), block);
  float scale = 0.0f, min = 0.0f;
  for (int g = 0; g < rules.weights / rules.group; ++g) {
    const float value = fabsf(block_scale(rules.terms, block, g));
    if (value <= 3.4028235e38f) scale = fmaxf(scale, value);
    // A head that no group uses counts too.
    const float least = fabsf(rules.terms == BlockTerms::half_min ? block_half(block.mins[g])
                              : has_min(rules.terms)              ? block_half(block.mins[0])
                                                                  : 0.0f);
    if (least <= 3.4028235e38f) min = fmaxf(min, least);
  }
  keep_largest(&maxima->scale, scale * rules.factor);
  keep_largest(&maxima->min, min);
}

// Returns value * factor as f16. A finite number stays finite: only a head that all factors multiply by 0 can
// exceed f16.
__device__ __forceinline__ __half placed(float value, float factor) {
  const float scaled = value * factor;
  if (!(fabsf(value) <= 3.4028235e38f)) return __float2half_rn(value);
  return __float2half_rn(fminf(fmaxf(scaled, -65504.0f), 65504.0f));
}

// Returns the upper byte of a power of two in f16; 0 if it is too small, and NaN for the code that is NaN.
__device__ __forceinline__ uint8_t upper_byte_of_power(int exponent, bool is_nan) {
  if (is_nan) return 0x7e;
  return static_cast<uint8_t>(exponent < -14 ? 0 : (min(exponent, 15) + 15) << 2);
}

// Writes the numbers of one column's blocks to the records of a strip.
class RecordWriter {
 public:
  __device__ __forceinline__ RecordWriter(const BlockTile& tile, const BlockRules& rules,
                                          const BlockTarget& target, uint8_t* strip, int lane)
      : tile_(tile),
        rules_(rules),
        strip_(strip),
        segment_bytes_(tile.record_bytes + kBlockSteps * tile.bits * 128),
        scale_factor_(rules.factor / target.unit * kBlockFieldUnit),
        min_factor_(-1.0f / target.unit),
        place_((lane & 7) * 4 + (lane >> 3)) {
    // In the body: the compiler of the host reads initialisers, and does not know this intrinsic.
    unit_exponent_ = static_cast<int>(__float_as_uint(target.unit / rules.factor) >> 23) - 127;
  }

  // Writes the heads of a segment.
  __device__ __forceinline__ void write_heads(int segment, const BlockCodes& block) const {
    if (tile_.head_bytes == 0) return;
    auto* heads = reinterpret_cast<__half*>(strip_ + static_cast<size_t>(segment) * segment_bytes_);
    heads[place_] = placed(block_half(block.scales[0]), scale_factor_);
    if (tile_.head_bytes > kBlockHeadBytes)
      heads[kStripColumns + place_] = placed(block_half(block.mins[0]), min_factor_ * kBlockMinUnit);
  }
  // Writes the numbers of group `group` of a block, which begins at `row`.
  __device__ __forceinline__ void write_group(int row, const BlockCodes& block, int group) const {
    uint8_t* record = strip_ + static_cast<size_t>(row / kBlockRows) * segment_bytes_;
    uint8_t* at = record + tile_.head_bytes + row / kStepRows % kBlockSteps * tile_.step_bytes;
    uint8_t* bytes = at + (tile_.groups == 2 ? row / 16 % 2 * kStripColumns : 0);
    auto* halves = reinterpret_cast<__half*>(at);
    const uint8_t byte = block.group_scales[group];
    switch (rules_.terms) {
      case BlockTerms::half_min:
        halves[kStripColumns + place_] = placed(block_half(block.mins[group]), min_factor_);
        [[fallthrough]];
      case BlockTerms::half:
        halves[place_] = placed(block_half(block.scales[group]), scale_factor_);
        return;
      case BlockTerms::bytes:
        bytes[place_] = static_cast<uint8_t>(byte ^ kBlockByteBias);
        return;
      case BlockTerms::bytes_min:
        bytes[kStripColumns + place_] = block.group_mins[group];
        bytes[place_] = byte;
        return;
      case BlockTerms::e8m0:
        bytes[place_] = upper_byte_of_power(static_cast<int>(byte) - 127 + 24 - unit_exponent_, byte == 255);
        return;
      default:
        bytes[place_] = byte;
    }
  }

 private:
  const BlockTile& tile_;
  const BlockRules& rules_;
  uint8_t* strip_;
  uint32_t segment_bytes_;
  float scale_factor_;
  float min_factor_;
  int unit_exponent_;
  int place_;
};

constexpr int kCodeStride = kUnitRows + 4;  // bytes of a column's codes in shared memory

// Reads the blocks of one column's 256 rows: codes to shared memory, numbers to the records. Columns and rows
// that do not exist become zeros.
__device__ __forceinline__ void read_unit(const StoredBlocks& m, const BlockRules& rules,
                                          const BlockTarget& target, const RecordWriter& writer, int column,
                                          int first_row, uint8_t* codes) {
  const int rows = min(kUnitRows, target.num_blocks * kBlockRows - first_row);
  BlockCodes block;
  for (int done = 0; done < rows; done += rules.weights) {
    const int row = first_row + done;
    if (column < m.num_columns && row < m.num_rows) {
      read_block_with(m.grid, m.type, block_at(m, rules, column, row), block);
    } else {
      for (uint8_t& code : block.codes) code = 0;
      for (uint16_t& scale : block.scales) scale = 0;
      for (uint16_t& min : block.mins) min = 0;
      for (uint8_t& scale : block.group_scales) scale = 0;
      for (uint8_t& min : block.group_mins) min = 0;
    }
    const int here = min(rules.weights, rows - done);
    for (int k = 0; k < here; ++k) codes[done + k] = block.codes[k];
    for (int k = 0; k < here; k += kBlockRows)
      if ((row + k) % kBlockRows == 0) writer.write_heads((row + k) / kBlockRows, block);
    for (int k = 0; k < here; k += rules.group) writer.write_group(row + k, block, k / rules.group);
  }
}

// One warp per strip and 256 rows.
__global__ void __launch_bounds__(32)
    repack_blocks_kernel(StoredBlocks m, BlockRules rules, BlockTarget target) {
  __shared__ uint8_t codes[kStripColumns * kCodeStride];
  const int lane = static_cast<int>(threadIdx.x), strip = static_cast<int>(blockIdx.y);
  const BlockTile& tile = kBlockTiles.of[static_cast<int>(m.type)];
  uint8_t* strip_bytes = target.strips + static_cast<size_t>(strip) * target.strip_bytes;
  const int first_row = static_cast<int>(blockIdx.x) * kUnitRows;
  const RecordWriter writer(tile, rules, target, strip_bytes, lane);
  read_unit(m, rules, target, writer, strip * kStripColumns + lane, first_row, codes + lane * kCodeStride);
  __syncwarp();
  const uint32_t segment_bytes = tile.record_bytes + kBlockSteps * tile.bits * 128;
  for (int step = 0; step < kUnitSegments * kBlockSteps; ++step) {
    const int segment = first_row / kBlockRows + step / kBlockSteps;
    if (segment >= target.num_blocks) return;
    uint8_t* packed = strip_bytes + static_cast<size_t>(segment) * segment_bytes + tile.record_bytes +
                      step % kBlockSteps * tile.bits * 128;
    const auto code_of = [&](int row, int local) -> uint32_t {
      return codes[local * kCodeStride + step * kStepRows + row];
    };
    switch (tile.bits) {
      case 2:
        pack_tile<2>(packed, lane, code_of);
        break;
      case 3:
        pack_tile<3>(packed, lane, code_of);
        break;
      case 4:
        pack_tile<4>(packed, lane, code_of);
        break;
      case 5:
        pack_tile<5>(packed, lane, code_of);
        break;
      case 6:
        pack_tile<6>(packed, lane, code_of);
        break;
      default:
        pack_tile<8>(packed, lane, code_of);
    }
  }
}

// One warp per segment.
__global__ void __launch_bounds__(32 * kExpandWarps)
    expand_blocks_kernel(const __grid_constant__ Matrix matrix, int part_index, int first_strip,
                         __half* target, int row_stride) {
  const Part& part = matrix.parts[part_index];
  const int lane = static_cast<int>(threadIdx.x & 31), g = lane >> 2, t = lane & 3;
  const int segment = static_cast<int>(blockIdx.x) * kExpandWarps + static_cast<int>(threadIdx.x >> 5);
  if (segment >= matrix.num_blocks) return;
  const BlockTile& tile = kBlockTiles.of[part.runs[0].bits];
  const uint8_t* record = part.strips + static_cast<size_t>(first_strip + blockIdx.y) * part.strip_bytes +
                          static_cast<size_t>(segment) * part.runs[0].segment_bytes;
  const int second = second_group(tile, lane);
  const float scale[4] = {part.unit, part.unit, part.unit, part.unit};
  for (int i = 0; i < kBlockSteps; ++i) {
    __half2 w[16];
    with_block_codes(tile, [&]<int kBits, bool kIndices>(std::integral_constant<int, kBits>,
                                                         std::bool_constant<kIndices>) {
      uint32_t raw[kBits];
      fetch_words<kBits>(GlobalTile{record + tile.record_bytes + i * (kBits * 128)}, lane, raw);
      decode_block_words<kBits, kIndices>(tile, GlobalRecord{record}, i, second, g, raw, w);
    });
    apply_wide_scales(w, scale);
    const int row = (segment * kBlockSteps + i) * kStepRows + 8 * t;
    if (row >= row_stride) continue;
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      const int h = 8 * (q / 2) + (q & 1);
      const size_t column = static_cast<size_t>(blockIdx.y) * kStripColumns + g + 8 * q;
      const uint4 value = make_uint4(bits_of(w[h]), bits_of(w[h + 2]), bits_of(w[h + 4]), bits_of(w[h + 6]));
      *reinterpret_cast<uint4*>(target + column * row_stride + row) = value;
    }
  }
}

// Writes kEmbedBlocks blocks of a token's row. A thread reads a block, then all threads compute the values.
__global__ void __launch_bounds__(kEmbedThreads)
    embed_blocks_kernel(StoredBlocks m, BlockRules rules, const int32_t* ids, int first_row, float scale,
                        float* hidden) {
  __shared__ BlockCodes blocks[kEmbedBlocks];
  release_successor();
  wait_for_predecessor();
  const size_t token = blockIdx.y;
  const int first = static_cast<int>(blockIdx.x) * kEmbedBlocks;
  const int here = min(kEmbedBlocks, m.num_rows / rules.weights - first);
  const int id = ids[token] + first_row;
  for (int i = static_cast<int>(threadIdx.x); i < here; i += kEmbedThreads)
    read_block_with(m.grid, m.type, block_at(m, rules, id, (first + i) * rules.weights), blocks[i]);
  __syncthreads();
  const BlockTile& tile = kBlockTiles.of[static_cast<int>(m.type)];
  float* out = hidden + token * m.num_rows + static_cast<size_t>(first) * rules.weights;
  for (int k = static_cast<int>(threadIdx.x); k < here * rules.weights; k += kEmbedThreads) {
    const BlockCodes& block = blocks[k / rules.weights];
    const int local = k % rules.weights, group = local / rules.group;
    int value = block.codes[local];
    if (tile.has_table != 0) value = static_cast<int>(tile.values[value / 4] >> (8 * (value % 4)) & 255U);
    const float step = __fmul_rn(block_scale(rules.terms, block, group), rules.factor);
    const float scaled = __fmul_rn(static_cast<float>(value - rules.zero), step);
    const float weight =
        has_min(rules.terms) ? __fsub_rn(scaled, block_min(rules.terms, block, group)) : scaled;
    out[k] = __fmul_rn(weight, scale);
  }
}

}  // namespace

cudaError_t launch_embed_blocks(const EmbedParams& p, const StoredBlocks& table, Launch l) {
  const BlockRules rules = rules_of(table.type);
  const int32_t blocks = table.num_rows / rules.weights;
  const dim3 grid(static_cast<unsigned>((blocks + kEmbedBlocks - 1) / kEmbedBlocks),
                  static_cast<unsigned>(p.num_tokens));
  return launch_kernel(embed_blocks_kernel, grid, dim3(kEmbedThreads), 0, l.stream, l.dependent, table, rules,
                       p.token_ids, p.first_row, p.scale, p.hidden);
}

cudaError_t setup_blocks() {
  return load_kernels(embed_blocks_kernel, expand_blocks_kernel);
}

cudaError_t find_block_maxima(const StoredBlocks& source, BlockMaximaBits* maxima, cudaStream_t stream) {
  const BlockRules rules = rules_of(source.type);
  const int64_t blocks = static_cast<int64_t>(source.num_rows / rules.weights) * source.num_columns;
  const auto grid = static_cast<unsigned>((blocks + kThreads - 1) / kThreads);
  block_maxima_kernel<<<grid, kThreads, 0, stream>>>(source, rules, maxima);
  return cudaGetLastError();
}

cudaError_t repack_blocks(const StoredBlocks& source, const BlockTarget& target, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>((target.num_blocks + kUnitSegments - 1) / kUnitSegments),
                  static_cast<unsigned>(target.num_strips));
  repack_blocks_kernel<<<grid, 32, 0, stream>>>(source, rules_of(source.type), target);
  return cudaGetLastError();
}

cudaError_t expand_block_columns(const Matrix& matrix, const Slab& slab, __half* target, int row_stride,
                                 cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>((matrix.num_blocks + kExpandWarps - 1) / kExpandWarps),
                  static_cast<unsigned>(slab.num_strips));
  expand_blocks_kernel<<<grid, 32 * kExpandWarps, 0, stream>>>(matrix, slab.part, slab.first_strip, target,
                                                               row_stride);
  return cudaGetLastError();
}

}  // namespace quire::kernels
