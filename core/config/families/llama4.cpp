// Llama 4: chunked attention, layers without RoPE (NoPE), and MoE that scales the input of experts.
#include "core/config/families/experts.h"

namespace quire::families {
namespace {

bool has_experts(const ModelReader& reader, int32_t layer) {
  if (const auto listed = reader.fields().find("moe_layers")) {
    for (const JsonView& entry : listed->items())
      if (entry.as_int(0, 1024) == layer) return true;
    return false;
  }
  return (layer + 1) % reader.int_or("interleave_moe_layer_step", 1, 1, 1024) == 0;
}

void add_feed_forward(ModelReader& reader, LayerSpec& layer, int32_t index) {
  if (!has_experts(reader, index)) {
    const int32_t width = reader.require("intermediate_size_mlp", 1, 1 << 20);
    layer.feed_forward = reader.mlp(index, mlp_keys("feed_forward."), width);
    return;
  }
  ExpertsPart experts = routed(reader, index, {"feed_forward.router", "feed_forward."});
  experts.score = kernels::RouterScore::sigmoid;
  experts.scales_input = true;
  const int32_t width = reader.require("intermediate_size", 1, 1 << 20);
  experts.expert = stacked_expert(
      reader, index, {"feed_forward.experts.gate_up_proj", "feed_forward.experts.down_proj", true},
      experts.num_experts, width);
  add_shared(reader, index, "feed_forward.shared_expert.", width, experts);
  ModelReader::set_experts(layer, std::move(experts));
}

void add_attention(ModelReader& reader, LayerSpec& layer, bool turns) {
  AttentionPart& part = layer.attention();
  if (turns) {
    if (!reader.flag("use_qk_norm", true)) return;
    part.qk_norm = kernels::QkNorm::each_head;  // without weights
    part.qk_norm_epsilon = reader.epsilon();
    part.norm_after_rope = true;
    return;
  }
  ModelReader::drop_rope(layer);
  if (!reader.flag("attn_temperature_tuning", true)) return;
  part.temperature_beta = reader.number_or("attn_scale", 0.1, 0.0, 1e3);
  part.temperature_floor = reader.number_or("floor_scale", 8192.0, 1.0, 1e9);
  part.temperature_offset = 1.0f;
}

void llama4(ModelReader& reader) {
  const int32_t chunk = reader.int_or("attention_chunk_size", 8192, 1, 1 << 30);
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    const bool turns = reader.has_rope(i);
    const bool is_chunked =
        reader.fields().find("layer_types") ? reader.layer_type(i) == LayerType::chunked : turns;
    if (is_chunked) layer.attention().chunk = chunk;
    add_attention(reader, layer, turns);
    add_feed_forward(reader, layer, i);
  });
}

}  // namespace

const ArchitectureSpec kLlama4 = {.name = "Llama4ForCausalLM",
                                  .model_type = "llama4_text",
                                  .has_dense_mlp = false,
                                  .rope_style = kernels::RopeStyle::gptj_pairs,
                                  .qkv_bias = by_flag("attention_bias"),
                                  .attention_output_bias = by_flag("attention_bias"),
                                  .default_norm_epsilon = 1e-5,
                                  .default_rope_theta = 500000.0,
                                  .default_max_positions = 131072,
                                  .default_head_dim = 128,
                                  .refine = llama4};

}  // namespace quire::families
