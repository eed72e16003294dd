// The GLM families.
#include <utility>

#include "core/config/families/deepseek.h"
#include "core/config/families/experts.h"
#include "core/config/families/families.h"

namespace quire::families {
namespace {

constexpr TensorKeys glm_keys() {
  TensorKeys keys;
  keys.gate_up = "mlp.gate_up_proj";
  return keys;
}

void glm4(ModelReader& reader) {
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    layer.attention_post_norm = reader.layer_norm(i, "post_self_attn_layernorm");
    layer.feed_forward_post_norm = reader.layer_norm(i, "post_mlp_layernorm");
  });
}

// The width of a head follows from the hidden size; `head_dim` only counts dimensions that turn.
void glm4v(ModelReader& reader) {
  kernels::HeadShape heads = reader.heads();
  heads.head_dim = reader.model().hidden_size / heads.num_heads;
  const std::vector<RopeSpec> ropes = std::exchange(reader.model().ropes, {});
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    reader.set_heads(layer, i, heads);
    reader.set_rope(layer, ropes.front());
  });
  glm4(reader);
}

void add_experts(ModelReader& reader) {
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    if (is_sparse_layer(reader, i)) ModelReader::set_experts(layer, deepseek_experts(reader, i));
  });
}

void glm4_moe(ModelReader& reader) {
  if (reader.flag("use_qk_norm")) {
    reader.each_layer(
        [&](LayerSpec& layer, int32_t i) { reader.norm_heads(layer, i, kernels::QkNorm::each_head); });
  }
  add_experts(reader);
}

void glm4_moe_lite(ModelReader& reader) {
  make_latent(reader);
  add_experts(reader);
}

// Layers of type "shared" reuse the keys chosen by the last "full" layer.
void glm_moe_dsa(ModelReader& reader) {
  make_latent(reader);
  int32_t last = -1;
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    const bool is_shared = reader.layer_is("indexer_types", i, "shared", "full").value_or(false);
    if (is_shared && last < 0) {
      throw Error(ErrorCode::format, "{}.indexer_types[0] must be \"full\"", reader.fields().where());
    }
    layer.attention().selects_keys = true;
    if (is_shared) {
      layer.attention().selection_source = last;
    } else {
      add_indexer(reader, layer, i, kernels::RopeStyle::gptj_pairs);
      last = i;
    }
  });
  add_experts(reader);
}

constexpr ArchitectureSpec kGlmRow = {.name = "GlmForCausalLM",
                                      .model_type = "glm",
                                      .keys = glm_keys(),
                                      .rope_style = kernels::RopeStyle::gptj_pairs,
                                      .qkv_bias = by_flag("attention_bias"),
                                      .default_norm_epsilon = 1.5625e-07,
                                      .default_partial_rotary = 0.5,
                                      .default_max_positions = 131072,
                                      .default_head_dim = 128};

// The code that GLM-4-9B and ChatGLM 2 and 3 are published with: GLM under other names.
constexpr TensorKeys chat_glm_keys() {
  TensorKeys keys;
  keys.embedding = "transformer.embedding.word_embeddings";
  keys.layers = "transformer.encoder.layers.";
  keys.qkv = "self_attention.query_key_value";
  keys.attention_output = "self_attention.dense";
  keys.gate_up = "mlp.dense_h_to_4h";
  keys.down = "mlp.dense_4h_to_h";
  keys.final_norm = "transformer.encoder.final_layernorm";
  keys.head = "transformer.output_layer";
  return keys;
}

// Refuses variants that no published model uses, and multiplies the base of the rotary embedding by
// rope_ratio.
void chat_glm(ModelReader& reader) {
  for (const char* field : {"rmsnorm", "post_layer_norm", "multi_query_attention"}) {
    if (!reader.flag(field, true))
      throw Error(ErrorCode::unsupported, "{}.{}: false is not supported", reader.fields().where(), field);
  }
  if (reader.flag("apply_residual_connection_post_layernorm")) {
    throw Error(ErrorCode::unsupported, "{}.apply_residual_connection_post_layernorm is not supported",
                reader.fields().where());
  }
  reader.model().ropes.clear();
  RopeSpec rope;
  rope.config.theta = 10000.0 * reader.number_or("rope_ratio", 1.0, 1e-3, 1e6);
  rope.config.partial_factor = 0.5;
  reader.each_layer([&](LayerSpec& layer, int32_t) { reader.set_rope(layer, rope); });
}

constexpr ArchitectureSpec chat_glm_row() {
  ArchitectureSpec row = renamed(kGlmRow, "ChatGLMModel", "chatglm");
  row.keys = chat_glm_keys();
  row.qkv_bias = by_flag("add_qkv_bias");
  row.attention_output_bias = by_flag("add_bias_linear");
  row.mlp_bias = by_flag("add_bias_linear");
  row.default_norm_epsilon = 1e-5;
  row.refine = chat_glm;
  return row;
}

constexpr ArchitectureSpec glm4_row() {
  ArchitectureSpec row = renamed(kGlmRow, "Glm4ForCausalLM", "glm4");
  row.refine = glm4;
  return row;
}

// Text parts of checkpoints with a vision tower.
constexpr ArchitectureSpec glm4v_row() {
  ArchitectureSpec row = renamed(glm4_row(), "Glm4vForConditionalGeneration", "glm4v_text");
  row.qkv_bias = kAlways;
  row.default_norm_epsilon = 1e-5;
  row.default_partial_rotary = 1.0;
  row.default_max_positions = 32768;
  row.default_head_dim = 0;
  row.refine = glm4v;
  return row;
}

constexpr ArchitectureSpec kGlm4MoeRow = {.name = "Glm4MoeForCausalLM",
                                          .model_type = "glm4_moe",
                                          .qkv_bias = by_flag("attention_bias"),
                                          .default_norm_epsilon = 1e-5,
                                          .default_partial_rotary = 0.5,
                                          .default_max_positions = 131072,
                                          .default_head_dim = 128,
                                          .refine = glm4_moe};

constexpr ArchitectureSpec glm4v_moe_row() {
  ArchitectureSpec row = renamed(kGlm4MoeRow, "Glm4vMoeForConditionalGeneration", "glm4v_moe_text");
  row.qkv_bias = by_flag("attention_bias", true);
  row.default_max_positions = 65536;
  return row;
}

}  // namespace

const ArchitectureSpec kGlm = kGlmRow;
const ArchitectureSpec kChatGlm = chat_glm_row();
const ArchitectureSpec kGlm4 = glm4_row();

const ArchitectureSpec kGlm4v = glm4v_row();
const ArchitectureSpec kGlm4Moe = kGlm4MoeRow;
const ArchitectureSpec kGlm4vMoe = glm4v_moe_row();

const ArchitectureSpec kGlm4MoeLite = {.name = "Glm4MoeLiteForCausalLM",
                                       .model_type = "glm4_moe_lite",
                                       .rope_style = kernels::RopeStyle::gptj_pairs,
                                       .default_norm_epsilon = 1e-5,
                                       .default_max_positions = 202752,
                                       .refine = glm4_moe_lite};

const ArchitectureSpec kGlmMoeDsa = {.name = "GlmMoeDsaForCausalLM",
                                     .model_type = "glm_moe_dsa",
                                     .rope_style = kernels::RopeStyle::gptj_pairs,
                                     .default_norm_epsilon = 1e-5,
                                     .default_max_positions = 202752,
                                     .refine = glm_moe_dsa};

}  // namespace quire::families
