// Products of packed experts on a card with the bits of the CPU backend.
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/plan/packed_layout.h"
#include "kernels/interface/specs.h"

namespace quire::kernels {

// Integer activations of rows, in one order of the inputs: x = code * scale for each span of 128 rows.
struct PackedRows {
  int8_t* codes = nullptr;  // [rows, spans, 2, 128]: the high bytes of a span's codes, then the low bytes
  float* scales = nullptr;  // [spans, rows]
};

// Some tiles whose experts are in one staging buffer, or in slots. Rows are numbered from the first row of
// these tiles.
struct PackedBatch {
  const uint8_t* records = nullptr;  // address from which the tiles count the places of their records
  const PackedTile* tiles = nullptr;
  int32_t num_tiles = 0;
  int32_t first_row = 0;  // among the sorted rows
  int32_t num_rows = 0;
  const int32_t* sorted_rows = nullptr;  // [rows of the call] row of the call, by expert
  int32_t num_spans = 0;                 // most spans of any matrix: distance between rows of codes
  bool bytes_only = false;               // activations have 8 bits: the high bytes are 0
  PackedRows inputs[kMaxPackedParts];    // by order
};

// Inputs of gate and up: row r of the call reads input row r / num_chosen times input_scale[r].
struct PackedInputs {
  const float* input = nullptr;  // [tokens, num_in]
  const float* input_scale = nullptr;
  int32_t num_in = 0;
  int32_t num_chosen = 0;
};

cudaError_t launch_quantize_inputs(const PackedBatch& batch, const PackedInputs& inputs, int32_t num_orders,
                                   cudaStream_t stream);
// Activates the products of gate and up, [rows, columns], and quantizes them as inputs of down.
cudaError_t launch_quantize_activated(const PackedBatch& batch, const MlpSpec& mlp, const float* products,
                                      int32_t columns, cudaStream_t stream);
// Multiply the rows of the batch. multiply_gate_up writes to [rows of the batch, columns], multiply_down to
// [rows of the call, columns]: sorted, or in the order of the call.
cudaError_t launch_multiply_gate_up(const PackedBatch& batch, int32_t num_parts, int32_t num_panels,
                                    float* products, int32_t columns, cudaStream_t stream);
cudaError_t launch_multiply_down(const PackedBatch& batch, int32_t num_panels, float* outputs,
                                 int32_t columns, bool sorted, cudaStream_t stream);
// sums[t] = sum over i of weights[t, i] * outputs[t * num_chosen + i]; weights may be nullptr.
struct PackedSum {
  const float* outputs = nullptr;
  const float* weights = nullptr;
  int32_t num_chosen = 0;
  int32_t columns = 0;
  float* sums = nullptr;
};
cudaError_t launch_sum_packed(const PackedSum& sum, int32_t tokens, cudaStream_t stream);

// Called once per device, with the device current.
cudaError_t setup_packed();

}  // namespace quire::kernels
