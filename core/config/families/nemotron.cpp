// Nemotron: layer norms with weights stored minus one, ungated MLP with squared ReLU.
#include "core/config/families/families.h"

namespace quire::families {

const ArchitectureSpec kNemotron = {.name = "NemotronForCausalLM",
                                    .model_type = "nemotron",
                                    .norm = kernels::NormKind::layer,
                                    .norm_offset = 1.0f,
                                    .gated_mlp = false,
                                    .qkv_bias = by_flag("attention_bias"),
                                    .attention_output_bias = by_flag("attention_bias"),
                                    .mlp_bias = by_flag("mlp_bias"),
                                    .default_activation = "relu2",
                                    .default_norm_epsilon = 1e-5,
                                    .default_partial_rotary = 0.5,
                                    .default_max_positions = 4096};

}  // namespace quire::families
