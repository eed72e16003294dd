// Settings that go together: by a name, or as a model's authors recommend them.
#pragma once

#include <string>
#include <string_view>

#include "core/sampling/settings.h"

namespace quire {

// "neutral" (the plain softmax), "greedy", "precise", "balanced" or "creative". Throws
// ErrorCode::invalid_argument naming the presets where there is none of that name.
SamplingSettings sampling_preset(std::string_view name);

// What a generation_config.json says: do_sample, temperature, top_k, top_p, min_p, typical_p, top_n_sigma,
// repetition_penalty. An absent field is neutral, and without do_sample the draw is greedy, as in
// transformers. Throws ErrorCode::format naming the file and the field.
SamplingSettings sampling_from_generation_config(std::string_view text, const std::string& source);

}  // namespace quire
