// Sampling presets by name, and the settings that a model's authors recommend.
#pragma once

#include <string>
#include <string_view>

#include "core/sampling/settings.h"

namespace quire {

// Returns "neutral" (the plain softmax), "greedy", "precise", "balanced" or "creative". For other names
// throws ErrorCode::invalid_argument with the list of presets.
SamplingSettings sampling_preset(std::string_view name);

// Returns the settings of a generation_config.json: do_sample, temperature, top_k, top_p, min_p, typical_p,
// top_n_sigma, repetition_penalty. An absent field is neutral, and without do_sample the draw is greedy, as
// in transformers. Throws ErrorCode::format naming the file and the field.
SamplingSettings sampling_from_generation_config(std::string_view text, const std::string& source);

}  // namespace quire
