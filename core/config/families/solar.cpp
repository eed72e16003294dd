// Solar Open: the MoE of DeepSeek in every layer.
#include "core/config/families/deepseek.h"

namespace quire::families {
namespace {

void solar(ModelReader& reader) {
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    if (reader.flag("use_qk_norm")) reader.norm_heads(layer, i, kernels::QkNorm::each_head);
    ModelReader::set_experts(layer, deepseek_experts(reader, i));
  });
}

}  // namespace

const ArchitectureSpec kSolarOpen = {.name = "SolarOpenForCausalLM",
                                     .model_type = "solar_open",
                                     .has_dense_mlp = false,
                                     .qkv_bias = by_flag("attention_bias"),
                                     .attention_output_bias = by_flag("attention_bias"),
                                     .default_norm_epsilon = 1e-5,
                                     .default_rope_theta = 1000000.0,
                                     .default_max_positions = 131072,
                                     .default_head_dim = 128,
                                     .refine = solar};

}  // namespace quire::families
