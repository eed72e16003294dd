// What becomes of the sum of a column.
#pragma once

#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/gemm_segment.cuh"

namespace quire::kernels {

__device__ __forceinline__ void store_result(const GemmArguments& a, int token, int column, float value) {
  if (a.matrix.bias != nullptr) value += a.matrix.bias[column];
  const size_t at = static_cast<size_t>(token) * a.epilogue.stride + column;
  if (a.epilogue.residual != nullptr) {
    atomicAdd(a.epilogue.residual + at, value);  // the only one to add to it: nothing to wait for
  } else if (a.epilogue.output_f32 != nullptr) {
    a.epilogue.output_f32[at] = value;
  } else {
    a.epilogue.output[at] = __float2half_rn(value);
  }
}

// One column of a strip.
__device__ __forceinline__ void finish_single(const GemmArguments& a, StripPlace place, int token, int column,
                                              float value) {
  const int local = place.strip * kStripColumns + column;
  if (place.part >= 0 && local < a.matrix.parts[place.part].num_columns)
    store_result(a, token, a.matrix.parts[place.part].first_column + local, value);
}

// One column of a gate and its up.
__device__ __forceinline__ void finish_pair(const GemmArguments& a, int strip, int token, int column,
                                            float gate, float up) {
  const int local = strip * kStripColumns + column;
  if (local >= a.matrix.parts[0].num_columns) return;
  const int gate_column = a.matrix.parts[0].first_column + local,
            up_column = a.matrix.parts[1].first_column + local;
  if (a.epilogue.activation < 0) {
    store_result(a, token, gate_column, gate);
    store_result(a, token, up_column, up);
    return;
  }
  if (a.matrix.bias != nullptr) {
    gate += a.matrix.bias[gate_column];
    up += a.matrix.bias[up_column];
  }
  const float result = activate(a.epilogue.activation, gate) * up;
  a.epilogue.output[static_cast<size_t>(token) * a.epilogue.stride + local] = __float2half_rn(result);
}

// Where the sum of a token's column lies among those of one chain of one strip: swizzled by the token, so
// that neither the writers' nor the readers' lanes meet in a bank.
__device__ __forceinline__ int sum_place(int token, int column) {
  return token * kStripColumns + (column ^ (((token >> 1) & 3) << 3));
}

}  // namespace quire::kernels
