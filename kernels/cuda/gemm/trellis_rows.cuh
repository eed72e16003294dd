// Hadamard transforms of the inputs and outputs of EXL3 matrices. Every kernel that transforms a row computes
// the same bits.
#pragma once

#include "kernels/cuda/gemm/gemm_output.cuh"
#include "kernels/cuda/plan/trellis_tiles.h"

namespace quire::kernels {

// Multiplies 128 values by the Hadamard matrix; lane l of a warp has the values 4l to 4l + 3.
__device__ __forceinline__ void hadamard_128(float (&v)[4], int lane) {
  const float a = __fadd_rn(v[0], v[1]), b = __fsub_rn(v[0], v[1]);
  const float c = __fadd_rn(v[2], v[3]), d = __fsub_rn(v[2], v[3]);
  v[0] = __fadd_rn(a, c);
  v[1] = __fadd_rn(b, d);
  v[2] = __fsub_rn(a, c);
  v[3] = __fsub_rn(b, d);
#pragma unroll
  for (int span = 1; span < 32; span <<= 1) {
    const float sign = (lane & span) == 0 ? 1.0f : -1.0f;
#pragma unroll
    for (float& x : v) x = __fmaf_rn(x, sign, __shfl_xor_sync(0xffffffffU, x, span));
  }
}

// Transforms 128 inputs, of which a lane has four, and calls store(row, pair) for the two pairs of stored
// rows that it then has. `scales` are those of the lane's inputs.
template <typename Store>
__device__ __forceinline__ void transform_inputs(uint2 inputs, float4 scales, int lane, Store store) {
  const float2 low = __half22float2(half2_of(inputs.x)), high = __half22float2(half2_of(inputs.y));
  float v[4] = {__fmul_rn(low.x, scales.x), __fmul_rn(low.y, scales.y), __fmul_rn(high.x, scales.z),
                __fmul_rn(high.y, scales.w)};
  hadamard_128(v, lane);
  store(trellis_stored_row(4 * lane), __floats2half2_rn(v[0], v[1]));
  store(trellis_stored_row(4 * lane + 2), __floats2half2_rn(v[2], v[3]));
}

// Sums of a product before the transform: [rows, stride], with the columns of the strips of all parts.
struct RotatedSums {
  const float* sums = nullptr;
  int32_t stride = 0;
};

// Returns the four outputs of a lane: transform `number` of a part, whose columns begin at `first`.
__device__ __forceinline__ float4 rotated_outputs(const Part& part, RotatedSums from, int row, int first,
                                                  int number, int lane) {
  const int column = number * kHadamardOrder + 4 * lane;
  const float4 sums = __ldcg(
      reinterpret_cast<const float4*>(from.sums + static_cast<size_t>(row) * from.stride + first + column));
  const float4 scales = __ldg(reinterpret_cast<const float4*>(part.trellis.output_scales + column));
  float v[4] = {sums.x, sums.y, sums.z, sums.w};
  hadamard_128(v, lane);
  return make_float4(__fmul_rn(v[0], scales.x), __fmul_rn(v[1], scales.y), __fmul_rn(v[2], scales.z),
                     __fmul_rn(v[3], scales.w));
}

__device__ __forceinline__ int4 outputs_of_lane(const Part& part, int number, int lane) {
  return __ldg(reinterpret_cast<const int4*>(part.trellis.outputs + number * kHadamardOrder) + lane);
}

// Calls store(output, value) for the outputs that exist.
template <typename Store>
__device__ __forceinline__ void each_output(int4 outputs, float4 values, Store store) {
  if (outputs.x >= 0) store(outputs.x, values.x);
  if (outputs.y >= 0) store(outputs.y, values.y);
  if (outputs.z >= 0) store(outputs.z, values.z);
  if (outputs.w >= 0) store(outputs.w, values.w);
}

// Transforms and finishes 128 columns of a part for one row, by one warp.
template <typename Arguments>
__device__ __forceinline__ void finish_transform(const Arguments& a, RotatedSums from, int row,
                                                 int part_index, int first, int number, int lane) {
  const Part& part = a.matrix.parts[part_index];
  const float4 values = rotated_outputs(part, from, row, first, number, lane);
  each_output(outputs_of_lane(part, number, lane), values,
              [&](int output, float value) { store_result(a, row, part.first_column + output, value); });
}

// Does the same for gate and up.
template <typename Arguments>
__device__ __forceinline__ void finish_transform_pair(const Arguments& a, RotatedSums from, int row,
                                                      int number, int lane) {
  const Part &gate_part = a.matrix.parts[0], &up_part = a.matrix.parts[1];
  if (a.epilogue.activation < 0) {
    finish_transform(a, from, row, 0, 0, number, lane);
    finish_transform(a, from, row, 1, gate_part.num_strips * kStripColumns, number, lane);
    return;
  }
  const float4 gate = rotated_outputs(gate_part, from, row, 0, number, lane);
  const float4 up = rotated_outputs(up_part, from, row, gate_part.num_strips * kStripColumns, number, lane);
  const auto result = [&](int output, float of_gate, float of_up) {
    if (output < 0) return;
    if (a.matrix.bias != nullptr) {
      of_gate = __fadd_rn(of_gate, a.matrix.bias[gate_part.first_column + output]);
      of_up = __fadd_rn(of_up, a.matrix.bias[up_part.first_column + output]);
    }
    a.epilogue.output[static_cast<size_t>(row) * a.epilogue.stride + output] =
        __float2half_rn(__fmul_rn(activate(a.epilogue.activation, of_gate), of_up));
  };
  const int4 outputs = outputs_of_lane(gate_part, number, lane);
  result(outputs.x, gate.x, up.x);
  result(outputs.y, gate.y, up.y);
  result(outputs.z, gate.z, up.z);
  result(outputs.w, gate.w, up.w);
}

}  // namespace quire::kernels
