// Hunyuan: norms of q and k heads after RoPE. Hy3: norms before RoPE, and routing by sigmoid scores.
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

void hy_v3(ModelReader& reader) {
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    reader.norm_heads(layer, i, kernels::QkNorm::each_head);
    if (!is_sparse_layer(reader, i, 1)) return;
    ExpertsPart experts = routed(reader, i, {"mlp.router.gate", "mlp.experts.{}."});
    route_by_sigmoid(reader, experts, reader.key(i, "mlp.expert_bias"));
    experts.scale = reader.number_or("router_scaling_factor", 2.826, 1e-6, 1e6);
    const int32_t shared = reader.int_or("num_shared_experts", 1, 0, 1024);
    add_shared(reader, i, "mlp.shared_mlp.", shared * expert_width(reader), experts);
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

const ArchitectureSpec kHyV3 = {.name = "HYV3ForCausalLM",
                                .model_type = "hy_v3",
                                .qkv_bias = by_flag("attention_bias"),
                                .attention_output_bias = by_flag("attention_bias"),
                                .default_norm_epsilon = 1e-5,
                                .default_rope_theta = 11158840.0,
                                .default_max_positions = 131072,
                                .default_head_dim = 128,
                                .refine = hy_v3};

}  // namespace quire::families
