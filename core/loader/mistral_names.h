// Names of tensors in Mistral's own files.
#pragma once

#include <string>

namespace quire {

// Returns the name in consolidated.safetensors for a name of transformers: "layers.3.attention.wq.weight" for
// "model.layers.3.self_attn.q_proj.weight".
std::string mistral_name(const std::string& name);

}  // namespace quire
