// Rotary embedding as a configuration describes it, in either of its two spellings.
#pragma once

#include <cstdint>
#include <vector>

#include "core/config/config_fields.h"

namespace quire {

enum class RopeKind : uint8_t {
  plain,   // "default"
  linear,  // positions divided by a factor
  llama3,  // low frequencies divided by a factor, high ones kept, smooth in between
};

struct RopeConfig {
  RopeKind kind = RopeKind::plain;
  double theta = 10000.0;
  double factor = 1.0;                 // linear, llama3
  double low_freq_factor = 1.0;        // llama3
  double high_freq_factor = 4.0;       // llama3
  int32_t original_max_positions = 0;  // llama3
  double partial_factor = 1.0;         // share of a head's dimensions that turn

  bool operator==(const RopeConfig&) const = default;
};

// From `rope_parameters`, or from `rope_theta` with `rope_scaling`, whose kind is `rope_type` or `type`.
// Where both spellings are there, they must agree. Throws ErrorCode::unsupported naming a kind that is not
// listed above, ErrorCode::format naming a field that is missing or out of range.
RopeConfig read_rope_config(const ConfigFields& fields, double default_theta);

// [rotary_dim / 2] angles per position, in the float32 arithmetic of transformers' modeling_rope_utils.
std::vector<float> inverse_frequencies(const RopeConfig& rope, int32_t rotary_dim);

}  // namespace quire
