// Places of a sequence's state, and functions of decays and gates. Arithmetic that several kernels must do
// alike is written with the functions that round once, so that the compiler does not contract it differently.
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/state/state.h"

namespace quire::kernels {

// The rows of one sequence in a step, and the banks of its slot.
struct StateLane {
  int first_row;
  int num_rows;
  int position;           // of the first row
  bool forms;             // the source holds the line before that of the first row
  const uint8_t* source;  // bank that holds what lies before the first row
  uint8_t* first;         // bank for the line of the first row
  uint8_t* later;         // bank for later lines
};

__device__ __forceinline__ StateLane open_lane(const StateMemory& m, int sequence) {
  StateLane lane;
  lane.first_row = m.starts[sequence];
  lane.num_rows = m.starts[sequence + 1] - lane.first_row;
  lane.position = lane.num_rows > 0 ? m.positions[lane.first_row] : 0;
  const int bank = m.banks[sequence];
  lane.forms = bank >= kFromLineBefore;
  uint8_t* const slot = m.memory + static_cast<size_t>(m.slots[sequence]) * m.slot_stride;
  const size_t own = (bank % kFromLineBefore) * m.layout.bank_bytes;
  lane.source = slot + own;
  lane.later = slot + (m.layout.bank_bytes - own);
  lane.first = lane.forms ? lane.later : slot + own;
  return lane;
}

__device__ __forceinline__ int line_of(int position) {
  return position / kStateLine;
}

// Returns true if a bank still holds the rows of `line` after the step.
__device__ __forceinline__ bool keeps_line(const StateLane& lane, int line) {
  return line == line_of(lane.position + lane.num_rows - 1) ||
         (line == line_of(lane.position) && !lane.forms);
}

__device__ __forceinline__ uint8_t* bank_of_line(const StateLane& lane, int line) {
  return line == line_of(lane.position) ? lane.first : lane.later;
}

// Returns the line that the source of a lane holds.
__device__ __forceinline__ int source_line(const StateLane& lane) {
  return line_of(lane.position) - (lane.forms ? 1 : 0);
}

__device__ __forceinline__ float* floats_at(uint8_t* bank, size_t offset) {
  return reinterpret_cast<float*>(bank + offset);
}
__device__ __forceinline__ const float* floats_at(const uint8_t* bank, size_t offset) {
  return reinterpret_cast<const float*>(bank + offset);
}

__device__ __forceinline__ int padded_to_16(int dim) {
  return (dim + 15) / 16 * 16;
}

// Returns the input of a convolution at a position before the lane's first row, from its bank.
__device__ __forceinline__ float earlier_input(const StateMemory& m, const StateLane& lane, int taps,
                                               int channels, int channel, int position) {
  if (position < 0) return 0.0f;
  const int index = taps - 1 + position - source_line(lane) * kStateLine;
  return floats_at(lane.source, m.layout.inputs)[static_cast<size_t>(index) * channels + channel];
}

// Returns the place in a bank of the input of a line's token `index`; -1 .. 1 - taps are before the line.
__device__ __forceinline__ float* kept_input(const StateMemory& m, uint8_t* bank, int taps, int channels,
                                             int channel, int index) {
  return floats_at(bank, m.layout.inputs) + static_cast<size_t>(taps - 1 + index) * channels + channel;
}

__device__ __forceinline__ float sigmoid_of(float x) {
  return __fdividef(1.0f, __fadd_rn(1.0f, __expf(-x)));
}

__device__ __forceinline__ float silu_of(float x) {
  return __fdividef(x, __fadd_rn(1.0f, __expf(-x)));
}

// x/2 (1 + tanh(u)) = x / (1 + exp(-2u)), u = sqrt(2/pi) (x + 0.044715 x^3).
__device__ __forceinline__ float gelu_tanh_of(float x) {
  const float cubic = __fmaf_rn(__fmul_rn(__fmul_rn(x, x), x), 0.044715f, x);
  return __fdiv_rn(x, __fadd_rn(1.0f, expf(__fmul_rn(cubic, -1.5957691216057308f))));
}

__device__ __forceinline__ float softplus_of(float x) {
  return __fadd_rn(fmaxf(x, 0.0f), log1pf(expf(-fabsf(x))));
}

// Returns the sum over a warp, the same bits in every lane.
__device__ __forceinline__ float sum_of_warp(float v) {
#pragma unroll
  for (int d = 16; d > 0; d >>= 1) v = __fadd_rn(v, __shfl_xor_sync(0xffffffffU, v, d));
  return v;
}

}  // namespace quire::kernels
