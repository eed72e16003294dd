// MiniCPM: Llama with a scaled embedding, block outputs scaled by depth, and logits scaled by width. MiniCPM
// 3 has latent attention.
#include <cmath>

#include "core/config/families/deepseek.h"

namespace quire::families {
namespace {

// Defaults of the scales; 0: the scale has no effect.
struct Scales {
  double embedding = 1.0;
  double depth = 0.0;
  double base = 0.0;
};

void scale(ModelReader& reader, const Scales& defaults) {
  const float depth = std::sqrt(static_cast<float>(reader.num_layers()));
  const auto read = [&](std::string_view name, double fallback, double neutral) {
    const bool is_neutral = fallback == 0.0 || reader.fields().is_null(name);
    return reader.number_or(name, is_neutral ? neutral : fallback, 1e-9, 1e9);
  };
  reader.model().embedding.scale = reader.number_or("scale_emb", defaults.embedding, 1e-9, 1e9);
  reader.scale_blocks(read("scale_depth", defaults.depth, depth) / depth);
  reader.model().head.scale =
      read("dim_model_base", defaults.base, reader.hidden()) / static_cast<float>(reader.hidden());
}

void minicpm(ModelReader& reader) {
  scale(reader, {});
}

void minicpm3(ModelReader& reader) {
  const int32_t value = reader.hidden() / reader.heads().num_heads;
  make_latent(reader, {.query_rank = 768, .rank = 256, .rest = 64, .rotary = 32, .value = value});
  scale(reader, {.embedding = 12.0, .depth = 1.4, .base = 256.0});
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

const ArchitectureSpec kMiniCpm3 = {.name = "MiniCPM3ForCausalLM",
                                    .model_type = "minicpm3",
                                    .mlp_bias = by_flag("mlp_bias"),
                                    .tied_by_default = true,
                                    .default_norm_epsilon = 1e-5,
                                    .default_max_positions = 32768,
                                    .refine = minicpm3};

}  // namespace quire::families
