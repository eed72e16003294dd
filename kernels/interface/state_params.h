// The arguments of the operations of layers with a recurrent state. Shapes are as in op_params.h.
//
// For each lane (sequence of the batch) an operation reads the slot `read_slots` and writes the slot
// `write_slots`. If they differ, it first copies what the lane's bank holds of tokens before the first one.
// So the lane continues in the new slot, and the old one stays as it is. No slot is written by two lanes. A
// lane may read a slot that another lane both reads and writes only if it does not begin at a later position.
//
// Results have the same bits for any chunks, company and number of threads: a token's result depends on its
// own lane only, and every sum has an order that depends only on positions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/interface/op_params.h"
#include "kernels/interface/state_specs.h"
#include "kernels/interface/types.h"

namespace quire::kernels {

// What one operation keeps for all sequences, device memory, owned by the cache. Slot s begins at
// memory + s * slot_stride and has state_bytes of the operation's shape. Bytes that no step has written are
// never read, so a slot needs no initialisation.
struct StateStore {
  void* memory = nullptr;  // aligned to 64 bytes
  size_t slot_stride = 0;  // bytes, a multiple of 64
};

// Columns of a matrix with one row per token.
struct StateRows {
  void* rows = nullptr;  // first column of token 0
  int32_t stride = 0;    // elements between rows
};

// Taps of a convolution, f32, as ConvolutionSpec has them: tap 0 multiplies the oldest token.
struct ConvolutionTaps {
  const float* weight = nullptr;  // [taps, tap_stride], of which the first columns are read
  int32_t tap_stride = 0;         // elements from a tap to the next
  const float* bias = nullptr;    // [channels], or nullptr
};

// What GatedNormSpec takes.
struct GatedNormInput {
  StateRows gate;                 // [T, columns] before its activation; read only
  const float* weight = nullptr;  // nullptr: ones
};

// Common to the operations below. All rows of one operation have one type: the activation dtype, or f32 if
// rows_are_f32. The operation may overwrite the rows that it convolves; other rows it only reads.
struct StateOpParams {
  BatchView batch;  // with read_slots, write_slots and state_banks
  StateStore store;
  bool rows_are_f32 = false;
  void* output = nullptr;  // [T, columns of the result], activation dtype; no part of the input
};

// output = after * [silu](conv(before * input)): the short convolution of LFM2, and the first one of Mamba-1.
struct ConvolveParams : ConvolutionSpec, StateOpParams {
  StateRows input;   // [T, channels]; here only read
  StateRows before;  // [T, channels], or rows nullptr: ones
  StateRows after;   // likewise
  ConvolutionTaps weights;
};

struct DeltaRuleParams : DeltaRuleSpec, StateOpParams {
  StateRows query;  // [T, num_key_heads * key_dim] before the convolution; may be overwritten
  StateRows key;    // likewise
  StateRows value;  // [T, num_heads * value_dim], likewise
  StateRows decay;  // x: [T, num_heads], or with decay_per_channel [T, num_heads * key_dim]
  StateRows beta;   // b: [T, num_heads]
  ConvolutionTaps query_taps;
  ConvolutionTaps key_taps;
  ConvolutionTaps value_taps;
  const float* a_log = nullptr;       // [num_heads]
  const float* decay_bias = nullptr;  // shape of one row of `decay`
  GatedNormInput norm_input;          // columns: num_heads * value_dim
};

struct StateSpaceParams : StateSpaceSpec, StateOpParams {
  StateRows input;  // x: [T, num_heads * head_dim] before the convolution; may be overwritten
  StateRows key;    // B: [T, num_groups * state_dim], likewise
  StateRows query;  // C: likewise
  StateRows step;   // dt: [T, num_heads]
  ConvolutionTaps input_taps;
  ConvolutionTaps key_taps;
  ConvolutionTaps query_taps;
  const float* a_log = nullptr;      // [num_heads]
  const float* step_bias = nullptr;  // [num_heads]
  const float* skip = nullptr;       // D: [num_heads], or nullptr: zeros
  GatedNormInput norm_input;         // columns: num_heads * head_dim
};

struct LinearAttentionParams : LinearAttentionSpec, StateOpParams {
  StateRows query;                // [T, num_heads * head_dim] before silu; may be overwritten
  StateRows key;                  // likewise
  StateRows value;                // likewise
  const float* slopes = nullptr;  // [num_heads]
  GatedNormInput norm_input;
};

struct SelectiveScanParams : SelectiveScanSpec, StateOpParams {
  StateRows input;                    // x: [T, channels] after the convolution
  StateRows step;                     // dt: [T, channels]
  StateRows key;                      // B: [T, state_dim]; not of rg_lru
  StateRows query;                    // C: [T, state_dim]; not of rg_lru
  StateRows input_gate;               // i: [T, channels]; of rg_lru alone
  const float* input_bias = nullptr;  // i_bias: [channels]; of rg_lru alone
  const float* a_log = nullptr;       // [state_dim, channels]: the transpose of the stored matrix
  const float* step_bias = nullptr;   // [channels], or nullptr: zeros
  const float* skip = nullptr;        // D: [channels], or nullptr: zeros
  GatedNormInput norm_input;
};

// output = gated norm of the input: the last part of the operations above by itself, for shards that have
// only a part of a group's columns.
struct GatedNormParams : GatedNormSpec {
  StateRows input;  // [rows, columns]; activation dtype
  GatedNormInput norm_input;
  int32_t rows = 0;
  int32_t columns = 0;
  void* output = nullptr;  // [rows, columns] activation dtype; may be the input if that has no gaps
};

// Copies device memory after the work issued so far: slots for forks and snapshots. The ranges do not
// overlap.
struct CopyStateParams {
  const void* source = nullptr;
  void* target = nullptr;
  size_t bytes = 0;
};

}  // namespace quire::kernels
