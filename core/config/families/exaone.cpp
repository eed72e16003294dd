// EXAONE 3, which is Llama under the names of GPT-2; EXAONE 4: norms after the blocks, layers with full
// attention have no RoPE.
#include "core/config/families/experts.h"
#include "core/config/families/families.h"

namespace quire::families {
namespace {

constexpr TensorKeys exaone_keys() {
  TensorKeys keys;
  keys.embedding = "transformer.wte";
  keys.layers = "transformer.h.";
  keys.attention_norm = "ln_1";
  keys.query = "attn.attention.q_proj";
  keys.key = "attn.attention.k_proj";
  keys.value = "attn.attention.v_proj";
  keys.attention_output = "attn.attention.out_proj";
  keys.mlp_norm = "ln_2";
  keys.gate = "mlp.c_fc_0";
  keys.up = "mlp.c_fc_1";
  keys.down = "mlp.c_proj";
  keys.final_norm = "transformer.ln_f";
  return keys;
}

void norm_heads(ModelReader& reader) {
  const bool has_windows = !reader.fields().is_null("sliding_window");
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    reader.norm_heads(layer, i, kernels::QkNorm::each_head);
    if (!has_windows || reader.layer_type(i) == LayerType::sliding) return;
    ModelReader::drop_rope(layer);
  });
}

void exaone4(ModelReader& reader) {
  norm_heads(reader);
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    layer.attention_norm = ModelReader::bare_norm(kernels::NormKind::none, 1e-5f, reader.hidden());
    layer.feed_forward_norm = layer.attention_norm;
    layer.attention_post_norm = reader.layer_norm(i, "post_attention_layernorm");
    layer.feed_forward_post_norm = reader.layer_norm(i, "post_feedforward_layernorm");
  });
}

void exaone_moe(ModelReader& reader) {
  norm_heads(reader);
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    if (!is_sparse_layer(reader, i)) return;
    ExpertsPart experts = routed(reader, i, {"mlp.gate", "mlp.experts.{}."});
    route_by_sigmoid(reader, experts, reader.key(i, "mlp.e_score_correction_bias"));
    const int32_t shared = reader.int_or("num_shared_experts", 0, 0, 1024);
    add_shared(reader, i, "mlp.shared_experts.", shared * expert_width(reader), experts);
    ModelReader::set_experts(layer, std::move(experts));
  });
}

constexpr ArchitectureSpec kExaone4Row = {.name = "Exaone4ForCausalLM",
                                          .model_type = "exaone4",
                                          .window = WindowRule::by_layer_type,
                                          .window_pattern = 4,
                                          .default_norm_epsilon = 1e-5,
                                          .default_sliding_window = 4096,
                                          .refine = exaone4};

constexpr ArchitectureSpec exaone_moe_row() {
  ArchitectureSpec row = renamed(kExaone4Row, "ExaoneMoeForCausalLM", "exaone_moe");
  row.refine = exaone_moe;
  return row;
}

}  // namespace

const ArchitectureSpec kExaone = {.name = "ExaoneForCausalLM",
                                  .model_type = "exaone",
                                  .keys = exaone_keys(),
                                  .default_intermediate_ratio = 4,
                                  .qkv_bias = by_flag("attention_bias"),
                                  .attention_output_bias = by_flag("attention_bias"),
                                  .mlp_bias = by_flag("mlp_bias"),
                                  .tied_by_default = true,
                                  .default_norm_epsilon = 1e-5};

const ArchitectureSpec kExaone4 = kExaone4Row;
const ArchitectureSpec kExaoneMoe = exaone_moe_row();

}  // namespace quire::families
