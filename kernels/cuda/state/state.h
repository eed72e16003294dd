// Launches of the operations on recurrent states. The arguments are checked and on the device already.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "kernels/cuda/pointwise/pointwise.h"
#include "kernels/interface/state_params.h"

namespace quire::kernels {

// The sequences of a step, and what one operation keeps for them.
struct StateMemory {
  const int32_t* positions = nullptr;  // of rows
  const int32_t* starts = nullptr;     // of sequences
  const int32_t* slots = nullptr;      // that sequences write
  const int32_t* banks = nullptr;
  uint8_t* memory = nullptr;
  size_t slot_stride = 0;
  StateLayout layout;
};

// Taps of some channels of an operation's convolution.
struct ChannelTaps {
  const float* weight = nullptr;
  const float* bias = nullptr;
  int stride = 0;         // elements from a tap to the next
  int first_channel = 0;  // in a row of inputs in a bank
};

// A matrix with f32 columns and one row for each token.
struct FloatRows {
  float* rows = nullptr;
  int stride = 0;
  ChannelTaps taps;
};

// What the columns of a head become after the recurrence.
enum class HeadResult : uint8_t {
  output,      // written to the output in the activation dtype
  gated,       // gated and normalised by the same kernel, then written
  value_rows,  // written over the value rows in f32, for launch_gated_norm
};

// Numbers that a rule computes its decays and updates from; see the specs of the operations.
struct HeadRates {
  const float* a_log = nullptr;
  const float* bias = nullptr;
  const float* skip = nullptr;
  const float* slopes = nullptr;
  DecayKind decay_kind = DecayKind::softplus;
  float lower_bound = 0.0f;
  float beta_scale = 1.0f;
  float least_step = 0.0f;
  float most_step = 0.0f;
};

enum class HeadRule : uint8_t { delta, delta_per_channel, state_space, linear };

// Heads with a state: S <- decay S + key update^T, o = S^T query.
struct HeadsArguments {
  HeadRule rule = HeadRule::delta;
  bool solves_lines = false;      // true: for launch_lines, false: for launch_heads
  size_t solved_line_bytes = 0;   // as in state_specs.h
  uint32_t shared_per_block = 0;  // of the card
  StateMemory memory;
  int num_sequences = 0;
  int num_single = 0;  // leading sequences with one token each
  int num_heads = 0;
  int heads_per_key = 1;
  int key_dim = 0;
  int value_dim = 0;
  int conv_taps = 0;  // 0: no convolution
  int conv_channels = 0;
  bool silu = false;             // of query, key and value, after the convolution
  bool normalises_keys = false;  // and queries: l2 norm
  float query_scale = 1.0f;      // of normalised queries
  FloatRows query;
  FloatRows key;
  FloatRows value;
  FloatRows decay;  // x of a delta rule, dt of a state space
  FloatRows beta;
  HeadRates rates;
  HeadResult result = HeadResult::output;
  GatedNormSpec gate_spec;
  FloatRows gate;
  const float* gate_weight = nullptr;
  __half* output = nullptr;  // [rows, num_heads * value_dim]
};

// Returns true if the kernel gates the rows of single tokens itself, although the result is value_rows.
bool gates_singles(const HeadsArguments& arguments);
cudaError_t launch_heads(const HeadsArguments& arguments, Launch launch);

// What launch_lines needs to know of a step's tokens.
struct LineTokens {
  int num_tokens = 0;
  int longest = 0;                  // most tokens of a sequence
  uint8_t* solved_lines = nullptr;  // memory for max_solved_lines(num_tokens) lines, or nullptr
};
// Computes the delta rule of specs for which kernels::solves_lines is true, if setup_lines allows it. Without
// memory for solved lines the results have the same bits.
cudaError_t launch_lines(const HeadsArguments& arguments, const LineTokens& tokens, Launch launch);
cudaError_t launch_convolve(const ConvolveParams& params, const StateMemory& memory, Launch launch);
cudaError_t launch_scan(const SelectiveScanParams& params, const StateMemory& memory, Launch launch);

// Rows that are gated and normalised.
struct GatedRows {
  GatedNormSpec spec;
  const void* input = nullptr;
  int input_stride = 0;
  bool input_is_f32 = false;
  const void* gate = nullptr;
  int gate_stride = 0;
  bool gate_is_f32 = false;
  const float* weight = nullptr;
  int rows = 0;
  int columns = 0;
  __half* output = nullptr;  // [rows, columns]
};
cudaError_t launch_gated_norm(const GatedRows& rows, Launch launch);

// How rows of a bank are grouped: [groups, kStateLine, elements of a row / groups].
struct BankGroups {
  int keys = 1;
  int updates = 1;
  int decays = 1;
  int factors = 1;
};
// For sequences that go on in another slot: copies what their bank holds before their first token.
cudaError_t launch_move(const BatchView& batch, const StateMemory& memory, const StateShape& shape,
                        const BankGroups& groups, Launch launch);

// Called once per device, with the device current: load the kernels onto the card.
cudaError_t setup_heads(int shared_limit);
// Sets `available` to whether the card can run launch_lines. If not, launch_heads computes all delta rules.
cudaError_t setup_lines(int shared_limit, bool* available);
cudaError_t setup_state();

}  // namespace quire::kernels
