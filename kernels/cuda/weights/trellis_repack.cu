#include "kernels/cuda/gemm/plane.cuh"
#include "kernels/cuda/gemm/trellis_weights.cuh"
#include "kernels/cuda/weights/trellis_repack.h"

namespace quire::kernels {
namespace {

constexpr int kWarps = 4;  // of a thread block, one segment of 128 rows of a strip each

// Returns half word `index` of the two streams of a lane, one behind the other; `tiles` are the eight tiles
// of the half strip in the segment, `tile_stride` half words apart. In a file a word's first bits are in its
// second half word.
__device__ __forceinline__ uint32_t half_word(const uint16_t* tiles, size_t tile_stride, int half_bits,
                                              int lane, int index) {
  const int second = index >= half_bits ? 1 : 0;
  const uint16_t* tile = tiles + (2 * (lane & 3) + second) * tile_stride;
  return __ldg(tile + (((lane >> 2) * half_bits + index - second * half_bits) ^ 1));
}

__global__ void __launch_bounds__(32 * kWarps) repack_trellis_kernel(StoredTrellis m, TrellisTarget target) {
  const int lane = static_cast<int>(threadIdx.x & 31), strip = static_cast<int>(blockIdx.y);
  const int segment = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x >> 5);
  if (segment >= target.num_blocks) return;
  const int half_bits = m.half_bits, unit_words = trellis_unit_words(half_bits);
  const size_t tile_words = static_cast<size_t>(half_bits) * 8, tile_stride = tile_words * m.column_tiles;
  for (int half = 0; half < 2; ++half) {
    const int column = m.transforms[strip / kTransformStrips] * (kHadamardOrder / kTrellisTile) +
                       strip % kTransformStrips * 2 + half;
    const uint16_t* tiles =
        m.tiles + segment * (kBlockRows / kTrellisTile) * tile_stride + column * tile_words;
    uint8_t* to = target.strips + static_cast<size_t>(strip) * target.strip_bytes +
                  static_cast<size_t>(segment * 2 + half) * trellis_half_bytes(half_bits);
    for (int w = 0; w < half_bits; ++w) {
      const uint32_t word = half_word(tiles, tile_stride, half_bits, lane, 2 * w) << 16 |
                            half_word(tiles, tile_stride, half_bits, lane, 2 * w + 1);
      const int unit = w / unit_words;
      *reinterpret_cast<uint32_t*>(to + unit * unit_words * 128 +
                                   trellis_word_place(unit_words, w % unit_words, lane)) = word;
    }
  }
}

// Returns the input feature of a stored row, the inverse of trellis_stored_row for rows of lane t.
__device__ __forceinline__ int feature_of(int step, int t, int pair, int x) {
  const int j = pair / 4, r = pair / 2 % 2;
  return 16 * (2 * t + step / 2) + 4 * (step % 2) + 2 * j + 8 * r + x;
}

__global__ void __launch_bounds__(32 * kWarps)
    expand_trellis_kernel(const __grid_constant__ Matrix matrix, int part_index, int first_strip,
                          __half* target) {
  const Part& part = matrix.parts[part_index];
  const int lane = static_cast<int>(threadIdx.x & 31), g = lane >> 2, t = lane & 3;
  const int segment = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x >> 5);
  if (segment >= matrix.num_blocks) return;
  const int form = part.runs[0].bits, row_stride = matrix.num_blocks * kBlockRows;
  const uint8_t* from = part.strips + static_cast<size_t>(first_strip + blockIdx.y) * part.strip_bytes +
                        static_cast<size_t>(segment) * part.runs[0].segment_bytes;
  const TrellisFactors factors = trellis_factors(form, lane);
  for (int half = 0; half < 2; ++half) {
    const size_t first_column = static_cast<size_t>(blockIdx.y) * kStripColumns + 16 * half + g;
    with_trellis_form(form, [&]<int kHalfBits, bool kBytes>(std::integral_constant<int, kHalfBits>,
                                                            std::bool_constant<kBytes>) {
      using Form = TrellisForm<kHalfBits>;
      for (int u = 0; u < Form::kUnits; ++u) {
        TrellisUnit<kHalfBits> unit;
        unit.fetch(GlobalTile{from + half * trellis_half_bytes(kHalfBits) + u * Form::kUnitBytes}, lane);
        for_constants<Form::kUnitSteps>([&]<int kStep>(std::integral_constant<int, kStep>) {
          __half2 w[8];
          unit.template decode<kBytes, kStep>(factors, w);
          for (int h = 0; h < 8; ++h) {
            __half* column = target + (first_column + 8 * (h & 1)) * row_stride + segment * kBlockRows;
            const int step = u * Form::kUnitSteps + kStep;
            column[feature_of(step, t, h, 0)] = __low2half(w[h]);
            column[feature_of(step, t, h, 1)] = __high2half(w[h]);
          }
        });
      }
    });
  }
}

dim3 segment_grid(int32_t num_blocks, int32_t num_strips) {
  return dim3(static_cast<unsigned>((num_blocks + kWarps - 1) / kWarps), static_cast<unsigned>(num_strips));
}

}  // namespace

cudaError_t repack_trellis(const StoredTrellis& source, const TrellisTarget& target, cudaStream_t stream) {
  repack_trellis_kernel<<<segment_grid(target.num_blocks, target.num_strips), 32 * kWarps, 0, stream>>>(
      source, target);
  return cudaGetLastError();
}

cudaError_t expand_trellis(const Matrix& matrix, int32_t part, int32_t first_strip, int32_t num_strips,
                           void* target, cudaStream_t stream) {
  expand_trellis_kernel<<<segment_grid(matrix.num_blocks, num_strips), 32 * kWarps, 0, stream>>>(
      matrix, part, first_strip, static_cast<__half*>(target));
  return cudaGetLastError();
}

}  // namespace quire::kernels
