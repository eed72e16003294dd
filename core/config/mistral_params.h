// Mistral's own description of a model, params.json, as published beside consolidated.safetensors.
#pragma once

#include <string>
#include <string_view>

namespace quire {

// Returns the config.json that describes the same model: with the names of transformers, and with rotary
// pairs side by side, as the matrices in Mistral's own files have them. Throws ErrorCode::format naming the
// field of `where` that is missing or malformed, and ErrorCode::unsupported naming a feature that is not
// supported.
std::string config_of_mistral_params(std::string_view params_text, const std::string& where);

}  // namespace quire
