// Cohere Command R: parallel attention and MLP share one layer norm without bias; tied embeddings; scaled
// logits. The layers of Cohere 2 MoE have experts, except the first ones.
#include "core/base/error.h"
#include "core/config/families/experts.h"

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

// Returns whether a layer has a window. If there are no layer_types, the dense layers and the others have a
// pattern each.
bool is_sliding(const ModelReader& reader, int32_t layer, int32_t num_dense) {
  if (reader.fields().find("layer_types")) return reader.layer_type(layer) == LayerType::sliding;
  if (layer < num_dense)
    return (layer + 1) % reader.int_or("prefix_dense_sliding_window_pattern", 1, 1, 1024) != 0;
  return (layer - num_dense + 1) % reader.int_or("sliding_window_pattern", 4, 1, 1024) != 0;
}

void set_window(ModelReader& reader, LayerSpec& layer, int32_t index, bool is_sparse) {
  const bool slides = is_sliding(reader, index, reader.int_or("first_k_dense_replace", 0, 0, 1024));
  const bool keeps_rope = !is_sparse && reader.int_or("prefix_dense_sliding_window_pattern", 1, 1, 1024) == 1;
  layer.attention().sliding_window = slides ? reader.int_or("sliding_window", 4096, 1, 1 << 30) : 0;
  if (!slides && !keeps_rope) ModelReader::drop_rope(layer);
}

// Returns whether a field is `fallback`, its default, and not `other`.
bool is_word(const ModelReader& reader, std::string_view field, std::string_view fallback,
             std::string_view other) {
  const std::string word = reader.fields().string_or({field}, fallback);
  if (word == fallback || word == other) return word == fallback;
  throw Error(ErrorCode::unsupported, "{}.{}: \"{}\" is not supported; supported are {} and {}",
              reader.fields().where(), field, printable(word, 32), fallback, other);
}

ExpertsPart experts_part(ModelReader& reader, int32_t index) {
  ExpertsPart experts = routed(reader, index, {"mlp.gate", "mlp.experts.{}."});
  const bool by_softmax = is_word(reader, "expert_selection_fn", "softmax", "sigmoid");
  experts.score = by_softmax ? kernels::RouterScore::softmax_of_chosen : kernels::RouterScore::sigmoid;
  experts.normalised = !by_softmax && reader.flag("norm_topk_prob", true);
  const bool averages = is_word(reader, "shared_expert_combination_strategy", "average", "sum");
  const int32_t shared = reader.int_or("num_shared_experts", 0, 0, 1024);
  add_shared(reader, index, "mlp.shared_experts.", shared * expert_width(reader), experts);
  if (averages && experts.shared) experts.expert.down.prescale = experts.shared->down.prescale = 0.5f;
  return experts;
}

// With rms_norm_eps the norms are RMS norms.
void cohere2_moe(ModelReader& reader) {
  reader.model().head.scale = reader.number_or("logit_scale", 0.0625, 1e-9, 1e6);
  const bool has_rms = reader.fields().find("rms_norm_eps").has_value();
  if (has_rms) reader.model().head.norm.kind = kernels::NormKind::rms;
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    layer.parallel = layer.shares_norm = true;
    if (has_rms) layer.attention_norm.kind = kernels::NormKind::rms;
    const bool is_sparse = is_sparse_layer(reader, i);
    set_window(reader, layer, i, is_sparse);
    if (is_sparse) {
      ModelReader::set_experts(layer, experts_part(reader, i));
    } else {
      const int32_t width =
          reader.int_or("prefix_dense_intermediate_size", reader.intermediate(), 1, 1 << 20);
      layer.feed_forward = reader.mlp(i, mlp_keys("mlp."), width);
    }
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

constexpr ArchitectureSpec cohere2_moe_row() {
  ArchitectureSpec row = renamed(cohere2_row(), "Cohere2MoeForCausalLM", "cohere2_moe");
  row.default_head_dim = 128;
  row.refine = cohere2_moe;
  return row;
}

}  // namespace

const ArchitectureSpec kCohere = kCohereRow;
const ArchitectureSpec kCohere2 = cohere2_row();
const ArchitectureSpec kCohere2Moe = cohere2_moe_row();

}  // namespace quire::families
