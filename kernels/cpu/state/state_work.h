// Pieces of work of layers with a recurrent state: one unit (a head, or some channels) of one lane. Plain
// structs, because code for one instruction set calls no functions of shared headers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/interface/state_specs.h"

namespace quire::kernels {

// The rows of one sequence in a step, and the banks of its slot.
struct StateLane {
  int32_t first_row = 0;
  int32_t num_rows = 0;
  int32_t position = 0;             // of the first row
  bool forms = false;               // true: the source holds the line before that of the first row
  const uint8_t* source = nullptr;  // bank that holds what lies before the first row
  uint8_t* first = nullptr;         // bank for the line of the first row
  uint8_t* later = nullptr;         // bank for later lines
};

// Columns of a matrix with one row per token.
struct StateColumns {
  const float* rows = nullptr;
  size_t stride = 0;
};

// Up to kMaxStateKey channels that are convolved. Also applies silu and the l2 norm by itself.
struct ConvolveUnit {
  StateColumns input;
  StateColumns before;      // multiplies the input, or rows nullptr
  StateColumns after;       // multiplies the result, or rows nullptr
  float* output = nullptr;  // may be the input
  size_t output_stride = 0;
  int32_t channels = 0;
  int32_t taps = 0;  // 0: no convolution
  bool silu = false;
  const float* weight = nullptr;  // [taps, weight_stride]
  size_t weight_stride = 0;
  const float* bias = nullptr;
  size_t inputs = 0;         // offset in a bank of the unit's first channel in the first row of inputs
  size_t inputs_stride = 0;  // floats
  bool normalises = false;   // divides by sqrt(sum of squares + 1e-6), then multiplies by scale
  float scale = 1.0f;
  bool keeps_keys = false;  // stores the results as rows of keys
  size_t keys = 0;          // offset in a bank of the unit's first row of keys
};

struct GateUnit {
  const GatedNormSpec* spec = nullptr;  // nullptr: none
  StateColumns gate;
  const float* weight = nullptr;
};

enum class HeadRule : uint8_t { delta, delta_per_channel, state_space, linear };

// Work of all heads of a lane: S <- decay S + key update^T, o = S^T query.
struct HeadsWork {
  HeadRule rule = HeadRule::delta;
  int32_t key_dim = 0;
  int32_t value_dim = 0;
  int32_t heads_per_key = 1;
  int32_t num_heads = 0;
  StateColumns query;  // after convolution and norm
  StateColumns key;
  StateColumns value;
  StateColumns decay;  // delta: x; state_space: dt
  StateColumns beta;   // delta
  const float* a_log = nullptr;
  const float* bias = nullptr;    // of the decay
  const float* skip = nullptr;    // state_space: D
  const float* slopes = nullptr;  // linear
  DecayKind decay_kind = DecayKind::softplus;
  float lower_bound = 0.0f;
  float beta_scale = 1.0f;
  float least_step = 0.0f;
  float most_step = 0.0f;
  size_t state = 0;    // offsets in a bank: [heads, key_dim, padded value_dim]
  size_t keys = 0;     // [key heads, kStateLine, padded key_dim]
  size_t updates = 0;  // [heads, kStateLine, padded value_dim]
  size_t decays = 0;   // [heads, kStateLine], or [heads, kStateLine, padded key_dim]
  float* output = nullptr;
  size_t output_stride = 0;
  GateUnit gate;  // of groups of value_dim columns
};

// Work of all channels of a lane in a selective scan.
struct ScanWork {
  ScanKind kind = ScanKind::softplus;
  int32_t channels = 0;
  int32_t state_dim = 0;
  StateColumns input;
  StateColumns step;
  StateColumns key;
  StateColumns query;
  StateColumns input_gate;
  const float* input_bias = nullptr;
  const float* a_log = nullptr;
  const float* bias = nullptr;
  const float* skip = nullptr;
  size_t state = 0;    // offsets in a bank: [blocks of 16 channels, state_dim, 16]
  size_t keys = 0;     // [kStateLine, state_dim]
  size_t updates = 0;  // [blocks, kStateLine, 16]
  size_t decays = 0;   // [blocks, kStateLine, 16]
  float* output = nullptr;
  size_t output_stride = 0;
};

// Functions of one instruction set.
struct StateKernels {
  void (*convolve)(const ConvolveUnit& unit, const StateLane& lane);
  void (*head)(const HeadsWork& work, const StateLane& lane, int32_t head);
  void (*scan)(const ScanWork& work, const StateLane& lane, int32_t block);  // 16 channels
  // Gates and normalises one group of columns; `output` may be `input`.
  void (*gate)(const GatedNormSpec& spec, const float* input, const float* gate, const float* weight,
               float* output);
};

}  // namespace quire::kernels
