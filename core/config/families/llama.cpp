// Llama, and families that differ from it only by a switch.
#include "core/config/families/families.h"

namespace quire::families {
namespace {

constexpr ArchitectureSpec kLlamaRow = {.name = "LlamaForCausalLM",
                                        .model_type = "llama",
                                        .qkv_bias = by_flag("attention_bias"),
                                        .attention_output_bias = by_flag("attention_bias"),
                                        .mlp_bias = by_flag("mlp_bias")};

void drop_ropes(ModelReader& reader) {
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    if (!reader.has_rope(i)) ModelReader::drop_rope(layer);
  });
}

constexpr ArchitectureSpec smol_lm3_row() {
  ArchitectureSpec row = renamed(kLlamaRow, "SmolLM3ForCausalLM", "smollm3");
  row.window = WindowRule::by_layer_switch;
  row.tied_by_default = true;
  row.default_rope_theta = 2000000.0;
  row.default_max_positions = 32768;
  row.refine = drop_ropes;
  return row;
}

constexpr ArchitectureSpec helium_row() {
  ArchitectureSpec row = renamed(kLlamaRow, "HeliumForCausalLM", "helium");
  row.attention_output_bias = kNever;
  row.rope_style = kernels::RopeStyle::gptj_pairs;
  row.default_norm_epsilon = 1e-8;
  row.default_rope_theta = 100000.0;
  row.default_max_positions = 4096;
  row.default_head_dim = 128;
  return row;
}

constexpr ArchitectureSpec arcee_row() {
  ArchitectureSpec row = renamed(kLlamaRow, "ArceeForCausalLM", "arcee");
  row.gated_mlp = false;
  row.default_activation = "relu2";
  row.default_norm_epsilon = 1e-5;
  return row;
}

constexpr ArchitectureSpec seed_oss_row() {
  ArchitectureSpec row = renamed(kLlamaRow, "SeedOssForCausalLM", "seed_oss");
  row.qkv_bias = by_flag("attention_bias", true);
  row.attention_output_bias = by_flag("attention_out_bias");
  row.default_head_dim = 128;
  row.default_max_positions = 524288;
  return row;
}

constexpr ArchitectureSpec cwm_row() {
  ArchitectureSpec row = renamed(kLlamaRow, "CwmForCausalLM", "cwm");
  row.qkv_bias = row.attention_output_bias = row.mlp_bias = kNever;
  row.window = WindowRule::by_layer_type;
  row.window_pattern = 4;
  row.default_norm_epsilon = 1e-5;
  row.default_sliding_window = 8192;
  row.default_rope_theta = 1000000.0;
  row.default_max_positions = 131072;
  row.default_head_dim = 128;
  return row;
}

}  // namespace

const ArchitectureSpec kLlama = kLlamaRow;
const ArchitectureSpec kYi = renamed(kLlamaRow, "YiForCausalLM", "Yi");
const ArchitectureSpec kIndex = renamed(kLlamaRow, "IndexForCausalLM", "index");
const ArchitectureSpec kSmolLm3 = smol_lm3_row();
const ArchitectureSpec kHelium = helium_row();
const ArchitectureSpec kArcee = arcee_row();
const ArchitectureSpec kSeedOss = seed_oss_row();
const ArchitectureSpec kCwm = cwm_row();

}  // namespace quire::families
