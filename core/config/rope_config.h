// Rotary position embedding (RoPE) and its scaling kinds, as config.json describes them in either spelling:
// rope_parameters or rope_scaling.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/config/config_fields.h"

namespace quire {

enum class RopeKind : uint8_t {
  plain,         // "default"; also "mrope", whose three positions are equal for text
  linear,        // positions divided by a factor
  llama3,        // low frequencies divided by a factor, high ones kept, interpolated between
  yarn,          // the same, by the number of rotations in the original context
  longrope,      // a separate factor for each frequency; also called "su"
  dynamic,       // the base multiplied by a fixed alpha; without alpha, plain within the context
  proportional,  // angles span the whole head, but only its first part rotates
};

struct RopeConfig {
  struct Llama3 {
    double low_freq_factor = 1.0;
    double high_freq_factor = 4.0;
    bool operator==(const Llama3&) const = default;
  };
  struct Yarn {
    double beta_fast = 32.0;
    double beta_slow = 1.0;
    bool truncate = true;
    double mscale_all_dim = 0.0;  // scales attention in DeepSeek models
    bool operator==(const Yarn&) const = default;
  };
  // A factor per frequency, for contexts longer than the original one and for shorter ones.
  struct LongRope {
    std::vector<float> factors;
    std::vector<float> short_factors;
    bool operator==(const LongRope&) const = default;
  };
  RopeKind kind = RopeKind::plain;
  double theta = 10000.0;
  double factor = 1.0;
  int32_t original_max_positions = 0;  // llama3, yarn, longrope
  double partial_factor = 1.0;         // fraction of a head's dimensions that rotate
  double alpha = 0.0;                  // dynamic; 0: none
  double magnitude = 1.0;              // multiplies cosines and sines
  double short_magnitude = 1.0;        // longrope: for contexts within the original one
  Llama3 llama3;
  Yarn yarn;
  LongRope longrope;

  bool operator==(const RopeConfig&) const = default;
};

// Default values that config.json has outside of the settings object.
struct RopeDefaults {
  double theta = 10000.0;
  double partial_factor = 1.0;
  int32_t max_positions = 0;
  int32_t original_max_positions = 0;
  bool of_list = false;  // rope_theta is a list, from which the caller has taken `theta`
};

// Reads `rope_parameters`, or `rope_theta` with `rope_scaling`, whose kind is `rope_type` or `type`. If both
// spellings are present, they must agree. `layer_type` selects settings if they differ by layer type. Throws
// ErrorCode::unsupported naming a kind that is not listed above, and ErrorCode::format naming a field that is
// missing or out of range.
RopeConfig read_rope_config(const ConfigFields& fields, const RopeDefaults& defaults,
                            std::string_view layer_type = {});

// Returns whether the settings differ by layer type.
bool has_rope_by_layer_type(const ConfigFields& fields);

// Returns the factor by which YaRN scales attention for `mscale_all_dim`; 1 if it is not set.
double yarn_attention_factor(const RopeConfig& rope);

// Returns [rotary_dim / 2] angles per position, in the float32 arithmetic of transformers'
// modeling_rope_utils. `is_short`: for longrope, use the factors for contexts within the original one.
std::vector<float> inverse_frequencies(const RopeConfig& rope, int32_t rotary_dim, bool is_short = false);

}  // namespace quire
