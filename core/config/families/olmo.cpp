// The OLMo families: OLMo 1 has norms without weights, later ones have norms after the blocks. OLMo Hybrid
// has layers of the gated delta rule, with norms before the blocks.
#include "core/config/families/delta.h"
#include "core/config/families/experts.h"

namespace quire::families {
namespace {

void clip(ModelReader& reader) {
  const float limit = reader.number_or("clip_qkv", 0.0, 0.0, 1e6);
  reader.each_layer([&](LayerSpec& layer, int32_t) { layer.attention().clip = limit; });
}

void norm_after(ModelReader& reader) {
  reader.each_attention([&](LayerSpec& layer, int32_t i) {
    layer.attention_norm = ModelReader::bare_norm(kernels::NormKind::none, 1e-5f, reader.hidden());
    layer.feed_forward_norm = layer.attention_norm;
    layer.attention_post_norm = reader.layer_norm(i, "post_attention_layernorm");
    layer.feed_forward_post_norm = reader.layer_norm(i, "post_feedforward_layernorm");
    reader.norm_heads(layer, i, kernels::QkNorm::all_heads);
  });
}

// YaRN scaling applies to layers with full attention; sliding-window layers use unscaled RoPE.
void olmo3(ModelReader& reader) {
  norm_after(reader);
  if (has_rope_by_layer_type(reader.fields())) return;
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    if (reader.layer_type(i) != LayerType::sliding) return;
    RopeSpec plain;
    const auto rope_idx = static_cast<size_t>(layer.attention().rope_idx);
    plain.config.theta = reader.model().ropes[rope_idx].config.theta;
    reader.set_rope(layer, plain);
  });
}

void add_experts(ModelReader& reader) {
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    ExpertsPart experts = routed(reader, i, {"mlp.gate", "mlp.experts.{}."});
    experts.normalised = reader.flag("norm_topk_prob");
    ModelReader::set_experts(layer, std::move(experts));
  });
}

void olmoe(ModelReader& reader) {
  clip(reader);
  reader.each_layer(
      [&](LayerSpec& layer, int32_t i) { reader.norm_heads(layer, i, kernels::QkNorm::all_heads); });
  add_experts(reader);
}

void flex_olmo(ModelReader& reader) {
  norm_after(reader);
  add_experts(reader);
}

// Returns the sizes of the class for fields that the file lacks.
kernels::DeltaSpec delta_defaults(const ModelReader& reader) {
  kernels::DeltaSpec sizes;
  const int32_t heads = reader.heads().num_heads;
  sizes.num_key_heads = reader.int_or("linear_num_key_heads", heads, 1, 1024);
  sizes.num_value_heads = heads;
  sizes.key_dim = 3 * reader.hidden() / (4 * sizes.num_key_heads);
  sizes.value_dim = 2 * reader.int_or("linear_key_head_dim", sizes.key_dim, 1, 1024);
  return sizes;
}

// Norms that older files name differently.
NormPart renamed_norm(const ModelReader& reader, int32_t layer, std::string_view name,
                      std::string_view other) {
  NormPart norm = reader.layer_norm(layer, name);
  norm.weight.other_name = reader.key(layer, other) + ".weight";
  return norm;
}

void olmo_hybrid(ModelReader& reader) {
  norm_after(reader);
  if (!reader.fields().find(FieldNames{"rope_parameters", "rope_theta"})) reader.drop_ropes();
  reader.each_attention([&](LayerSpec& layer, int32_t i) {
    layer.attention_post_norm = renamed_norm(reader, i, "post_attention_layernorm", "feedforward_layer_norm");
  });
  reader.each_recurrent([&](LayerSpec& layer, int32_t i) {
    DeltaPart part = separate_gdn_part(reader, i, gdn_sizes(reader, delta_defaults(reader)));
    part.norm.epsilon = 1e-5f;  // independent of the epsilon of other norms
    if (reader.flag("linear_allow_neg_eigval", true)) part.beta_scale = 2.0f;
    layer.mixer = std::move(part);
    layer.attention_norm = renamed_norm(reader, i, "attention_layer_norm", "input_layernorm");
    layer.feed_forward_norm = renamed_norm(reader, i, "feedforward_layer_norm", "post_attention_layernorm");
  });
}

LayerType type_of_layer(const ModelReader& reader, int32_t layer) {
  const bool is_only = reader.num_layers() < 4 && layer == reader.num_layers() - 1;
  return layer % 4 == 3 || is_only ? LayerType::full : LayerType::recurrent;
}

constexpr ArchitectureSpec kOlmo2Row = {.name = "Olmo2ForCausalLM",
                                        .model_type = "olmo2",
                                        .qkv_bias = by_flag("attention_bias"),
                                        .attention_output_bias = by_flag("attention_bias"),
                                        .default_norm_epsilon = 1e-5,
                                        .refine = norm_after};

constexpr ArchitectureSpec olmo3_row() {
  ArchitectureSpec row = renamed(kOlmo2Row, "Olmo3ForCausalLM", "olmo3");
  row.window = WindowRule::by_layer_type;
  row.window_pattern = 4;
  row.default_sliding_window = 4096;
  row.refine = olmo3;
  return row;
}

constexpr ArchitectureSpec olmoe_row() {
  ArchitectureSpec row = renamed(kOlmo2Row, "OlmoeForCausalLM", "olmoe");
  row.default_max_positions = 4096;
  row.refine = olmoe;
  return row;
}

constexpr ArchitectureSpec flex_olmo_row() {
  ArchitectureSpec row = renamed(kOlmo2Row, "FlexOlmoForCausalLM", "flex_olmo");
  row.default_norm_epsilon = 1e-6;
  row.default_rope_theta = 500000.0;
  row.refine = flex_olmo;
  return row;
}

constexpr ArchitectureSpec olmo_hybrid_row() {
  ArchitectureSpec row = renamed(kOlmo2Row, "OlmoHybridForCausalLM", "olmo_hybrid");
  row.type_of_layer = type_of_layer;
  row.default_norm_epsilon = 1e-6;
  row.default_max_positions = 65536;
  row.refine = olmo_hybrid;
  return row;
}

}  // namespace

const ArchitectureSpec kOlmo = {.name = "OlmoForCausalLM",
                                .model_type = "olmo",
                                .norm = kernels::NormKind::layer,
                                .norm_has_weight = false,
                                .qkv_bias = by_flag("attention_bias"),
                                .attention_output_bias = by_flag("attention_bias"),
                                .default_norm_epsilon = 1e-5,
                                .refine = clip};
const ArchitectureSpec kOlmo2 = kOlmo2Row;
const ArchitectureSpec kOlmo3 = olmo3_row();
const ArchitectureSpec kOlmoHybrid = olmo_hybrid_row();
const ArchitectureSpec kOlmoe = olmoe_row();
const ArchitectureSpec kFlexOlmo = flex_olmo_row();

}  // namespace quire::families
