// Sampling presets by name, and the settings that a model's authors recommend.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/sampling/settings.h"

namespace quire {

// Returns "neutral" (the plain softmax), "greedy", "precise", "balanced" or "creative". For other names
// throws ErrorCode::invalid_argument with the list of presets.
SamplingSettings sampling_preset(std::string_view name);

// Returns the settings that a generation_config.json recommends: temperature, top_k, top_p, min_p, typical_p,
// top_n_sigma, repetition_penalty. An absent field is neutral. If do_sample is false, the draw is greedy. A
// file without do_sample recommends nothing: most tools write such a file for every model. Throws
// ErrorCode::format naming the file and the field.
std::optional<SamplingSettings> sampling_from_generation_config(std::string_view text,
                                                                const std::string& source);

}  // namespace quire
