// Cohere Command R: parallel attention and MLP share one layer norm without bias; tied embeddings; scaled
// logits.
#include "core/config/families/families.h"

namespace quire::families {
namespace {

void norm_heads(ModelReader& reader, LayerSpec& layer, int32_t index) {
  if (!reader.flag("use_qk_norm")) return;
  reader.norm_heads(layer, index, kernels::QkNorm::each_head);
  AttentionPart& part = layer.attention();
  part.qk_weight_per_head = true;
  part.q_norm.count = query_columns(part);
  part.k_norm.count = key_columns(part);
}

void cohere(ModelReader& reader) {
  reader.model().head.scale = reader.number_or("logit_scale", 0.0625, 1e-9, 1e6);
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    layer.parallel = layer.shares_norm = true;
    norm_heads(reader, layer, i);
  });
}

// Layers with full attention have no RoPE.
void cohere2(ModelReader& reader) {
  cohere(reader);
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    if (reader.layer_type(i) == LayerType::sliding) return;
    ModelReader::drop_rope(layer);
  });
}

constexpr ArchitectureSpec kCohereRow = {.name = "CohereForCausalLM",
                                         .model_type = "cohere",
                                         .norm = kernels::NormKind::layer,
                                         .norm_has_bias = false,
                                         .rope_style = kernels::RopeStyle::gptj_pairs,
                                         .qkv_bias = by_flag("attention_bias"),
                                         .attention_output_bias = by_flag("attention_bias"),
                                         .tied_by_default = true,
                                         .default_norm_epsilon = 1e-5,
                                         .default_max_positions = 8192,
                                         .refine = cohere};

constexpr ArchitectureSpec cohere2_row() {
  ArchitectureSpec row = renamed(kCohereRow, "Cohere2ForCausalLM", "cohere2");
  row.window = WindowRule::by_layer_type;
  row.window_pattern = 4;
  row.default_sliding_window = 4096;
  row.refine = cohere2;
  return row;
}

}  // namespace

const ArchitectureSpec kCohere = kCohereRow;
const ArchitectureSpec kCohere2 = cohere2_row();

}  // namespace quire::families
