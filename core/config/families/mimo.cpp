// MiMo V2 Flash: value heads narrower than key heads; sliding-window layers have twice the KV heads and
// attention sinks.
#include "core/config/families/deepseek.h"
#include "core/config/families/experts.h"

namespace quire::families {
namespace {

void mimo(ModelReader& reader) {
  const int32_t value_dim = reader.require("v_head_dim", 1, 1024);
  const float value_scale = reader.number_or("attention_value_scale", 1.0, 1e-6, 1e6);
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    const bool is_sliding = reader.layer_type(i) == LayerType::sliding;
    AttentionPart& part = layer.attention();
    kernels::HeadShape heads = reader.heads();
    heads.value_dim = value_dim;
    if (is_sliding) heads.num_kv_heads *= 2;
    reader.set_heads(layer, i, heads);
    part.qkv[2].prescale = value_scale;
    if (is_sliding) {
      part.has_sinks = true;
      part.sinks = {reader.key(i, "self_attn.attention_sink_bias"), heads.num_heads};
    }
    if (is_sparse_layer(reader, i)) ModelReader::set_experts(layer, deepseek_experts(reader, i));
  });
}

}  // namespace

const ArchitectureSpec kMiMoV2Flash = {.name = "MiMoV2FlashForCausalLM",
                                       .model_type = "mimo_v2_flash",
                                       .qkv_bias = by_flag("attention_bias"),
                                       .window = WindowRule::by_layer_type,
                                       .window_pattern = 6,
                                       .default_norm_epsilon = 1e-5,
                                       .default_rope_theta = 5000000.0,
                                       .default_max_positions = 262144,
                                       .default_sliding_window = 128,
                                       .refine = mimo};

}  // namespace quire::families
