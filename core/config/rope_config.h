// Rotary embedding as a configuration describes it, in either of its two spellings.
// RoPE and its scaling kinds.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/config/config_fields.h"

namespace quire {

enum class RopeKind : uint8_t {
  plain,         // "default"; "mrope" of text, whose three positions are one
  linear,        // positions divided by a factor
  llama3,        // low frequencies divided by a factor, high ones kept, smooth in between
  yarn,          // the same by how often a frequency turns in the original context
  longrope,      // each frequency divided by a factor of its own; "su"
  dynamic,       // the base raised by a fixed alpha, else plain within the context
  proportional,  // over all of a head, of which the first part turns
};

struct RopeConfig {
  RopeKind kind = RopeKind::plain;
  double theta = 10000.0;
  double factor = 1.0;
  double low_freq_factor = 1.0;        // llama3
  double high_freq_factor = 4.0;       // llama3
  int32_t original_max_positions = 0;  // llama3, yarn, longrope
  double partial_factor = 1.0;         // share of a head's dimensions that turn
  double beta_fast = 32.0;             // yarn
  double beta_slow = 1.0;
  bool truncate = true;
  double alpha = 0.0;           // dynamic; 0: none
  double mscale_all_dim = 0.0;  // yarn: DeepSeek's scale of attention
  double magnitude = 1.0;       // multiplies cosines and sines
  // longrope, one for each frequency: of contexts beyond the original one, and within it.
  std::vector<float> factors;
  std::vector<float> short_factors;
  double short_magnitude = 1.0;

  bool operator==(const RopeConfig&) const = default;
};

// What stands outside of the settings and means something for them.
struct RopeDefaults {
  double theta = 10000.0;
  double partial_factor = 1.0;
  int32_t max_positions = 0;
  int32_t original_max_positions = 0;
};

// From `rope_parameters`, or from `rope_theta` with `rope_scaling`, whose kind is `rope_type` or `type`.
// Where both spellings are there, they must agree. `layer_type` chooses among settings for kinds of layers
// where there are such. Throws ErrorCode::unsupported naming a kind that is not listed above,
// ErrorCode::format naming a field that is missing or out of range.
RopeConfig read_rope_config(const ConfigFields& fields, const RopeDefaults& defaults,
                            std::string_view layer_type = {});

// Whether there are settings of their own for kinds of layers.
bool has_rope_by_layer_type(const ConfigFields& fields);

// What YaRN multiplies attention's scale by for `mscale_all_dim`; 1 without it.
double yarn_attention_factor(const RopeConfig& rope);

// [rotary_dim / 2] angles per position, in the float32 arithmetic of transformers' modeling_rope_utils.
// `is_short`: of longrope, those of a context within the original one.
std::vector<float> inverse_frequencies(const RopeConfig& rope, int32_t rotary_dim, bool is_short = false);

}  // namespace quire
