// Hunyuan: norms of q and k heads after RoPE.
#include "core/config/families/experts.h"
#include "core/config/families/families.h"

namespace quire::families {
namespace {

constexpr TensorKeys hunyuan_keys() {
  TensorKeys keys;
  keys.q_norm = "self_attn.query_layernorm";
  keys.k_norm = "self_attn.key_layernorm";
  return keys;
}

void norm_heads(ModelReader& reader) {
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    reader.norm_heads(layer, i, kernels::QkNorm::each_head);
    layer.attention().norm_after_rope = true;
  });
}

void hunyuan_moe(ModelReader& reader) {
  norm_heads(reader);
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    ExpertsPart experts = routed(reader, i, {"mlp.gate.wg", "mlp.experts.{}."});
    experts.normalised = true;
    add_shared(reader, i, "mlp.shared_mlp.", reader.intermediate(), experts);
    ModelReader::set_experts(layer, std::move(experts));
  });
}

constexpr ArchitectureSpec kHunYuanRow = {.name = "HunYuanDenseV1ForCausalLM",
                                          .model_type = "hunyuan_v1_dense",
                                          .keys = hunyuan_keys(),
                                          .qkv_bias = by_flag("attention_bias"),
                                          .attention_output_bias = by_flag("attention_bias"),
                                          .default_norm_epsilon = 1e-5,
                                          .refine = norm_heads};

constexpr ArchitectureSpec hunyuan_moe_row() {
  ArchitectureSpec row = renamed(kHunYuanRow, "HunYuanMoEV1ForCausalLM", "hunyuan_v1_moe");
  row.refine = hunyuan_moe;
  return row;
}

}  // namespace

const ArchitectureSpec kHunYuanDense = kHunYuanRow;
const ArchitectureSpec kHunYuanMoe = hunyuan_moe_row();

}  // namespace quire::families
