// LFM2, LFM2-MoE and LFM3: short convolutions, with attention in between.
#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/config/families/delta.h"
#include "core/config/families/experts.h"

namespace quire::families {
namespace {

ShortConvPart conv_part(const ModelReader& reader, int32_t layer, int32_t default_taps) {
  ShortConvPart part;
  const int32_t hidden = reader.hidden();
  const BiasRule bias = reader.bias(by_flag("conv_bias"));
  part.in = reader.layer_matrix(layer, "conv.in_proj", hidden, 3 * hidden, bias);
  part.out = reader.layer_matrix(layer, "conv.out_proj", hidden, hidden, bias);
  const int32_t taps = reader.int_or("conv_L_cache", default_taps, 2, 64);
  part.conv = delta_conv(reader, layer, {"conv.conv"}, {hidden}, taps);
  part.conv.silu = false;
  if (bias == BiasRule::required) part.conv.bias = {reader.key(layer, "conv.conv.bias"), hidden};
  return part;
}

void set_mixers(ModelReader& reader, int32_t default_taps) {
  reader.each_attention(
      [&](LayerSpec& layer, int32_t i) { reader.norm_heads(layer, i, kernels::QkNorm::each_head); });
  reader.each_recurrent(
      [&](LayerSpec& layer, int32_t i) { layer.mixer = conv_part(reader, i, default_taps); });
  reader.model().head.tied = reader.flag("tie_embedding", reader.model().head.tied);
}

// Returns the width of the MLP: two thirds of the given one, times a factor, rounded up.
int32_t adjusted_width(const ModelReader& reader) {
  constexpr IntField kWidth = {{"block_ff_dim", "intermediate_size"}, 1, 1 << 20};
  const int32_t width = reader.fields().require_int(kWidth);
  if (!reader.flag("block_auto_adjust_ff_dim", true)) return width;
  const double factor = reader.fields().number_or({"block_ffn_dim_multiplier"}, 1.0, 1e-3, 64.0);
  const int32_t multiple = reader.int_or("block_multiple_of", 256, 1, 1 << 20);
  const auto scaled = static_cast<int64_t>(factor * static_cast<double>(2 * int64_t{width} / 3));
  const int64_t rounded = (scaled + multiple - 1) / multiple * multiple;
  if (rounded < 1 || rounded > 1 << 20) {
    throw Error(ErrorCode::format, "{}.block_multiple_of: the MLP has {} columns, not 1 to {}",
                reader.fields().where(), rounded, 1 << 20);
  }
  return static_cast<int32_t>(rounded);
}

void lfm2(ModelReader& reader) {
  set_mixers(reader, 3);
  const int32_t width = adjusted_width(reader);
  const TensorKeys& keys = reader.row().keys;
  const MlpKeys names = {"", std::string(keys.gate), std::string(keys.up), std::string(keys.down)};
  reader.each_layer([&](LayerSpec& layer, int32_t i) { layer.feed_forward = reader.mlp(i, names, width); });
}

ExpertsPart experts_part(ModelReader& reader, int32_t layer) {
  ExpertsPart experts = routed(reader, layer, {"feed_forward.gate", "feed_forward.experts.{}.", true});
  route_by_sigmoid(reader, experts, reader.key(layer, "feed_forward.expert_bias"));
  if (!reader.flag("use_expert_bias", true)) experts.choice_bias = {};
  experts.least_sum = 1e-6f;
  return experts;
}

void lfm2_moe(ModelReader& reader) {
  set_mixers(reader, 3);
  const int32_t num_dense = reader.int_or("num_dense_layers", 2, 0, 1024);
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    if (i >= num_dense) ModelReader::set_experts(layer, experts_part(reader, i));
  });
}

// Without settings, layers with full attention turn half of the frequencies, on another base.
void set_default_ropes(ModelReader& reader) {
  if (reader.fields().find("rope_parameters")) return;
  RopeSpec full;
  full.config.kind = RopeKind::proportional;
  full.config.theta = 1000000.0;
  full.config.partial_factor = 0.5;
  reader.model().ropes.clear();
  reader.each_attention([&](LayerSpec& layer, int32_t i) {
    reader.set_rope(layer, reader.layer_type(i) == LayerType::full ? full : RopeSpec());
  });
}

void lfm3(ModelReader& reader) {
  set_mixers(reader, 7);
  set_default_ropes(reader);
  if (reader.flag("use_attention_gate", true)) {
    reader.each_attention([&](LayerSpec& layer, int32_t i) {
      const int32_t heads = layer.attention().heads.num_heads;
      layer.attention().gate =
          OutputGatePart{reader.layer_matrix(i, "self_attn.gate_proj", reader.hidden(), heads)};
    });
  }
  if (!reader.flag("use_sandwich_norm", true)) return;
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    layer.attention_post_norm = reader.layer_norm(i, "post_operator_norm");
    layer.feed_forward_post_norm = reader.layer_norm(i, "post_ffn_norm");
  });
}

LayerType type_of_lfm2_layer(const ModelReader& reader, int32_t layer) {
  const auto list = reader.fields().find("full_attn_idxs");
  if (!list) return LayerType::full;
  if (!list->is_array()) throw Error(ErrorCode::format, "{} must be a list of layers", list->where());
  const std::vector<JsonView> entries = list->items();
  const bool is_full = std::any_of(entries.begin(), entries.end(), [&](const JsonView& entry) {
    return entry.as_int(0, reader.num_layers() - 1) == layer;
  });
  return is_full ? LayerType::full : LayerType::recurrent;
}

LayerType type_of_lfm3_layer(const ModelReader&, int32_t layer) {
  if (layer % 4 == 2) return LayerType::full;
  return layer > 0 && layer % 4 == 0 ? LayerType::sliding : LayerType::recurrent;
}

constexpr TensorKeys lfm2_keys() {
  TensorKeys keys;
  keys.attention_norm = "operator_norm";
  keys.attention_output = "self_attn.out_proj";
  keys.q_norm = "self_attn.q_layernorm";
  keys.k_norm = "self_attn.k_layernorm";
  keys.mlp_norm = "ffn_norm";
  keys.gate = "feed_forward.w1";
  keys.up = "feed_forward.w3";
  keys.down = "feed_forward.w2";
  keys.final_norm = "model.embedding_norm";
  return keys;
}

constexpr TensorKeys lfm3_keys() {
  TensorKeys keys = lfm2_keys();
  keys.attention_output = "self_attn.o_proj";
  keys.q_norm = "self_attn.q_norm";
  keys.k_norm = "self_attn.k_norm";
  return keys;
}

constexpr ArchitectureSpec kLfm2Row = {.name = "Lfm2ForCausalLM",
                                       .model_type = "lfm2",
                                       .keys = lfm2_keys(),
                                       .has_dense_mlp = false,
                                       .type_of_layer = type_of_lfm2_layer,
                                       .tied_by_default = true,
                                       .default_norm_epsilon = 1e-5,
                                       .default_rope_theta = 1000000.0,
                                       .default_max_positions = 128000,
                                       .refine = lfm2};

constexpr ArchitectureSpec lfm2_moe_row() {
  ArchitectureSpec row = renamed(kLfm2Row, "Lfm2MoeForCausalLM", "lfm2_moe");
  row.has_dense_mlp = true;
  row.refine = lfm2_moe;
  return row;
}

constexpr ArchitectureSpec lfm3_row() {
  ArchitectureSpec row = renamed(kLfm2Row, "Lfm3ForCausalLM", "lfm3");
  row.keys = lfm3_keys();
  row.has_dense_mlp = true;
  row.type_of_layer = type_of_lfm3_layer;
  row.window = WindowRule::by_layer_type;
  row.qkv_bias = row.attention_output_bias = by_flag("attention_bias");
  row.default_sliding_window = 256;
  row.default_head_dim = 128;
  row.refine = lfm3;
  return row;
}

}  // namespace

const ArchitectureSpec kLfm2 = kLfm2Row;
const ArchitectureSpec kLfm2Moe = lfm2_moe_row();
const ArchitectureSpec kLfm3 = lfm3_row();

}  // namespace quire::families
