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

// What a lane needs to finish its four columns of a transform: factors and the outputs that read them.
struct OutputTerms {
  float4 scales;
  int4 outputs;
};

__device__ __forceinline__ OutputTerms output_terms(const Part& part, int number, int lane) {
  const int column = number * kHadamardOrder + 4 * lane;
  return {__ldg(reinterpret_cast<const float4*>(part.trellis.output_scales + column)),
          __ldg(reinterpret_cast<const int4*>(part.trellis.outputs + column))};
}

// Returns the four outputs of a lane, from the sums of its columns.
__device__ __forceinline__ float4 rotated_outputs(const OutputTerms& terms, float4 sums, int lane) {
  float v[4] = {sums.x, sums.y, sums.z, sums.w};
  hadamard_128(v, lane);
  return make_float4(__fmul_rn(v[0], terms.scales.x), __fmul_rn(v[1], terms.scales.y),
                     __fmul_rn(v[2], terms.scales.z), __fmul_rn(v[3], terms.scales.w));
}

// Calls store(output, value) for the outputs that exist.
template <typename Store>
__device__ __forceinline__ void each_output(int4 outputs, float4 values, Store store) {
  if (outputs.x >= 0) store(outputs.x, values.x);
  if (outputs.y >= 0) store(outputs.y, values.y);
  if (outputs.z >= 0) store(outputs.z, values.z);
  if (outputs.w >= 0) store(outputs.w, values.w);
}

// Transforms and finishes transform `number` of a part for one row, by one warp. Created before the sums are
// there, so that it need not wait for factors afterwards.
template <typename Arguments>
class PartFinish {
 public:
  __device__ __forceinline__ PartFinish(const Arguments& a, int part, int number, int lane)
      : a_(a), terms_(output_terms(a.matrix.parts[part], number, lane)), part_(part), lane_(lane) {}
  __device__ __forceinline__ void run(float4 sums, int row) const {
    each_output(terms_.outputs, rotated_outputs(terms_, sums, lane_), [&](int output, float value) {
      store_result(a_, row, a_.matrix.parts[part_].first_column + output, value);
    });
  }

 private:
  const Arguments& a_;
  OutputTerms terms_;
  int part_;
  int lane_;
};

// Does the same for gate and up.
template <typename Arguments>
class PairFinish {
 public:
  __device__ __forceinline__ PairFinish(const Arguments& a, int number, int lane)
      : a_(a),
        gate_(output_terms(a.matrix.parts[0], number, lane)),
        up_(output_terms(a.matrix.parts[1], number, lane)),
        lane_(lane) {}
  __device__ __forceinline__ void run(float4 gate_sums, float4 up_sums, int row) const {
    const float4 gate = rotated_outputs(gate_, gate_sums, lane_), up = rotated_outputs(up_, up_sums, lane_);
    if (a_.epilogue.activation < 0) {
      store_part(0, gate_, gate, row);
      store_part(1, up_, up, row);
      return;
    }
    store_activated(gate_.outputs.x, gate.x, up.x, row);
    store_activated(gate_.outputs.y, gate.y, up.y, row);
    store_activated(gate_.outputs.z, gate.z, up.z, row);
    store_activated(gate_.outputs.w, gate.w, up.w, row);
  }

 private:
  __device__ __forceinline__ void store_part(int part, const OutputTerms& terms, float4 values,
                                             int row) const {
    each_output(terms.outputs, values, [&](int output, float value) {
      store_result(a_, row, a_.matrix.parts[part].first_column + output, value);
    });
  }
  __device__ __forceinline__ void store_activated(int output, float gate, float up, int row) const {
    if (output < 0) return;
    if (a_.matrix.bias != nullptr) {
      gate = __fadd_rn(gate, a_.matrix.bias[a_.matrix.parts[0].first_column + output]);
      up = __fadd_rn(up, a_.matrix.bias[a_.matrix.parts[1].first_column + output]);
    }
    a_.epilogue.output[static_cast<size_t>(row) * a_.epilogue.stride + output] =
        __float2half_rn(__fmul_rn(activate(a_.epilogue.activation, gate), up));
  }

  const Arguments& a_;
  OutputTerms gate_;
  OutputTerms up_;
  int lane_;
};

}  // namespace quire::kernels
