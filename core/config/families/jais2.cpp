// Jais 2: Llama with layer norms, biases and an ungated MLP with squared ReLU.
#include "core/config/families/families.h"

namespace quire::families {

const ArchitectureSpec kJais2 = {.name = "Jais2ForCausalLM",
                                 .model_type = "jais2",
                                 .norm = kernels::NormKind::layer,
                                 .gated_mlp = false,
                                 .qkv_bias = by_flag("attention_bias", true),
                                 .attention_output_bias = by_flag("attention_bias", true),
                                 .mlp_bias = by_flag("mlp_bias", true),
                                 .default_activation = "relu2",
                                 .default_norm_epsilon = 1e-5,
                                 .default_max_positions = 8192};

}  // namespace quire::families
