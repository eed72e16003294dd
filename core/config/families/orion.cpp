// Orion: Llama with layer norms.
#include "core/config/families/families.h"

namespace quire::families {

const ArchitectureSpec kOrion = {.name = "OrionForCausalLM",
                                 .model_type = "orion",
                                 .norm = kernels::NormKind::layer,
                                 .default_norm_epsilon = 1e-5,
                                 .default_max_positions = 4096};

}  // namespace quire::families
