// Epilogue of a product: bias, activation, and the store of a column's sum.
#pragma once

#include "kernels/cuda/gemm/gemm_segment.cuh"
#include "kernels/cuda/pointwise/activation.cuh"
#include "kernels/cuda/pointwise/arranged.cuh"

namespace quire::kernels {

// Calls with a function that stores a value in the output.
template <typename Call>
__device__ __forceinline__ void with_store(const Epilogue& e, Call call) {
  if (e.residual != nullptr) {
    // No other thread adds to this element. An atomicAdd without a result need not wait for the old value.
    call([&](size_t at, float v) { atomicAdd(e.residual + at, v); });
  } else if (e.output_f32 != nullptr) {
    call([&](size_t at, float v) { e.output_f32[at] = v; });
  } else {
    call([&](size_t at, float v) { e.output[at] = __float2half_rn(v); });
  }
}

// Work of a thread block of experts: the matrix of its expert, in shared memory, and arguments that all
// blocks share.
struct ExpertWork {
  const Matrix& matrix;
  const GemmShape& shape;
  const __half* input;
  int input_stride;
  int rows;
  const Epilogue& epilogue;
  const int32_t* rows_of_slots;
  const TrellisProduct& trellis;
  uint32_t* counters;

  __device__ __forceinline__ ExpertWork(const Matrix& of_expert, const ExpertArguments& a)
      : matrix(of_expert),
        shape(a.shape),
        input(a.input),
        input_stride(a.input_stride),
        rows(a.rows),
        epilogue(a.epilogue),
        rows_of_slots(a.rows_of_slots),
        trellis(a.trellis),
        counters(a.counters) {}
};

// Returns the output row of a token's results; negative: none.
__device__ __forceinline__ int output_row(const GemmArguments& a, int token) {
  return token < a.rows ? token : -1;
}
__device__ __forceinline__ int output_row(const ExpertWork& a, int token) {
  return a.rows_of_slots != nullptr ? a.rows_of_slots[token] : token;
}

template <typename Arguments>
__device__ __forceinline__ void store_result(const Arguments& a, int row, int column, float value) {
  if (a.matrix.bias != nullptr) value += a.matrix.bias[column];
  const size_t at = static_cast<size_t>(row) * a.epilogue.stride + column;
  with_store(a.epilogue, [&](auto store) { store(at, value); });
}

// Finishes one column of a strip.
template <typename Arguments>
__device__ __forceinline__ void finish_single(const Arguments& a, StripPlace place, int token, int column,
                                              float value) {
  const int local = place.strip * kStripColumns + column, row = output_row(a, token);
  if (row >= 0 && place.part >= 0 && local < a.matrix.parts[place.part].num_columns)
    store_result(a, row, a.matrix.parts[place.part].first_column + local,
                 value * a.matrix.parts[place.part].unit);
}

// Finishes one column of gate and up.
template <typename Arguments>
__device__ __forceinline__ void finish_pair(const Arguments& a, int strip, int token, int column, float gate,
                                            float up) {
  const int local = strip * kStripColumns + column, row = output_row(a, token);
  if (row < 0 || local >= a.matrix.parts[0].num_columns) return;
  const int gate_column = a.matrix.parts[0].first_column + local,
            up_column = a.matrix.parts[1].first_column + local;
  gate *= a.matrix.parts[0].unit;
  up *= a.matrix.parts[1].unit;
  if (a.epilogue.activation < 0) {
    store_result(a, row, gate_column, gate);
    store_result(a, row, up_column, up);
    return;
  }
  if (a.matrix.bias != nullptr) {
    gate += a.matrix.bias[gate_column];
    up += a.matrix.bias[up_column];
  }
  const float result = activate(a.epilogue.activation, gate) * up;
  a.epilogue.output[static_cast<size_t>(row) * a.epilogue.stride + local] = __float2half_rn(result);
}

// Counter of a half strip, at which the warps of all splits arrive. The upper bits count the eighths of K
// that have ever arrived, which is a multiple of kMaxSplits before and after a launch. The lower bits mark
// shares of the tokens whose warp has stopped waiting.
constexpr uint32_t kArrival = 1U << 8;
static_assert(kMaxWideTiles <= 8 && kMaxWideTiles <= kMaxSplits);
__device__ __forceinline__ int eighths_before(uint32_t state) {
  return static_cast<int>(state / kArrival % kMaxSplits);
}

// Returns the location of a token's sum for a column within one chain of one strip: swizzled by the token, so
// that neither writers nor readers have bank conflicts.
__device__ __forceinline__ int sum_place(int token, int column) {
  return token * kStripColumns + (column ^ (((token >> 1) & 3) << 3));
}

}  // namespace quire::kernels
