// MiniCPM: Llama with a scaled embedding, block outputs scaled by depth, and logits scaled by width.
#include <cmath>

#include "core/config/families/families.h"

namespace quire::families {
namespace {

void minicpm(ModelReader& reader) {
  reader.model().embedding.scale = reader.number_or("scale_emb", 1.0, 1e-9, 1e9);
  const float depth = std::sqrt(static_cast<float>(reader.num_layers()));
  reader.scale_blocks(reader.number_or("scale_depth", depth, 1e-9, 1e9) / depth);
  const float base = reader.number_or("dim_model_base", reader.hidden(), 1.0, 1e9);
  reader.model().head.scale = base / static_cast<float>(reader.hidden());
}

}  // namespace

const ArchitectureSpec kMiniCpm = {.name = "MiniCPMForCausalLM",
                                   .model_type = "minicpm",
                                   .qkv_bias = by_flag("attention_bias"),
                                   .attention_output_bias = by_flag("attention_bias"),
                                   .tied_by_default = true,
                                   .default_norm_epsilon = 1e-6,
                                   .default_max_positions = 2048,
                                   .refine = minicpm};

}  // namespace quire::families
