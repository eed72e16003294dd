// Gemma 1 to 3: embeddings scaled by sqrt(hidden_size), norm weights stored minus one, tanh GELU.
#include <cmath>

#include "core/config/families/experts.h"
#include "core/config/families/families.h"

namespace quire::families {
namespace {

void scale_embedding(ModelReader& reader) {
  reader.require_causal();
  reader.model().embedding.scale = std::sqrt(static_cast<float>(reader.hidden()));
}

void scale_attention(ModelReader& reader) {
  const float scalar = reader.number_or("query_pre_attn_scalar", 256.0, 1e-3, 1e6);
  reader.each_layer([&](LayerSpec& layer, int32_t) { layer.attention().scale = 1.0f / std::sqrt(scalar); });
}

void cap(ModelReader& reader, double attention, double head) {
  reader.model().head.softcap = reader.number_or("final_logit_softcapping", head, 0.0, 1e6);
  const float softcap = reader.number_or("attn_logit_softcapping", attention, 0.0, 1e6);
  reader.each_layer([&](LayerSpec& layer, int32_t) { layer.attention().softcap = softcap; });
}

// Sets norms before and after each block.
void add_pre_and_post_norms(ModelReader& reader) {
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    layer.attention_post_norm = reader.layer_norm(i, "post_attention_layernorm");
    layer.feed_forward_norm = reader.layer_norm(i, "pre_feedforward_layernorm");
    layer.feed_forward_post_norm = reader.layer_norm(i, "post_feedforward_layernorm");
  });
}

void gemma2(ModelReader& reader) {
  scale_embedding(reader);
  scale_attention(reader);
  cap(reader, 50.0, 30.0);
  add_pre_and_post_norms(reader);
}

void vault_gemma(ModelReader& reader) {
  scale_embedding(reader);
  scale_attention(reader);
  cap(reader, 50.0, 30.0);
}

// Sets unscaled RoPE with its own base for sliding-window layers.
void ropes_by_layer(ModelReader& reader) {
  if (has_rope_by_layer_type(reader.fields())) return;
  RopeSpec local;
  local.config.theta = reader.number_or("rope_local_base_freq", 10000.0, 1.0, 1e12);
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    if (reader.layer_type(i) == LayerType::sliding) reader.set_rope(layer, local);
  });
}

void gemma3(ModelReader& reader) {
  scale_embedding(reader);
  scale_attention(reader);
  cap(reader, 0.0, 0.0);
  add_pre_and_post_norms(reader);
  ropes_by_layer(reader);
  reader.each_layer(
      [&](LayerSpec& layer, int32_t i) { reader.norm_heads(layer, i, kernels::QkNorm::each_head); });
}

void gemmoe(ModelReader& reader) {
  scale_embedding(reader);
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    ExpertsPart experts = routed(reader, i, {"block_sparse_moe.gate", "block_sparse_moe.experts.{}.", true});
    experts.normalised = true;
    ModelReader::set_experts(layer, std::move(experts));
  });
}

// The first files name the exact GELU in `hidden_act`, which the family's own code ignores.
constexpr ArchitectureSpec kGemmaRow = {.name = "GemmaForCausalLM",
                                        .model_type = "gemma",
                                        .norm_offset = 1.0f,
                                        .qkv_bias = by_flag("attention_bias"),
                                        .attention_output_bias = by_flag("attention_bias"),
                                        .tied_by_default = true,
                                        .ignores_hidden_act = true,
                                        .default_activation = "gelu_pytorch_tanh",
                                        .default_max_positions = 8192,
                                        .default_head_dim = 256,
                                        .refine = scale_embedding};

constexpr ArchitectureSpec gemma2_row() {
  ArchitectureSpec row = renamed(kGemmaRow, "Gemma2ForCausalLM", "gemma2");
  row.window = WindowRule::by_layer_type;
  row.default_sliding_window = 4096;
  row.refine = gemma2;
  return row;
}

constexpr ArchitectureSpec vault_gemma_row() {
  ArchitectureSpec row = renamed(gemma2_row(), "VaultGemmaForCausalLM", "vaultgemma");
  row.keys.mlp_norm = "pre_feedforward_layernorm";
  row.refine = vault_gemma;
  return row;
}

constexpr ArchitectureSpec gemma3_row() {
  ArchitectureSpec row = renamed(gemma2_row(), "Gemma3ForCausalLM", "gemma3_text");
  row.window_pattern = 6;
  row.default_rope_theta = 1000000.0;
  row.default_max_positions = 131072;
  row.refine = gemma3;
  return row;
}

constexpr ArchitectureSpec gemmoe_row() {
  ArchitectureSpec row = renamed(kGemmaRow, "GemmoeForCausalLM", "gemmoe");
  row.ignores_hidden_act = false;
  row.refine = gemmoe;
  return row;
}

}  // namespace

const ArchitectureSpec kGemma = kGemmaRow;
const ArchitectureSpec kGemma2 = gemma2_row();
const ArchitectureSpec kGemma3 = gemma3_row();
const ArchitectureSpec kVaultGemma = vault_gemma_row();
const ArchitectureSpec kGemmoe = gemmoe_row();

}  // namespace quire::families
