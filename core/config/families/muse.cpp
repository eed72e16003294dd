// Muse Glimmer: gated attention, norms of the embedding and of q and k heads without weights, norms before
// and after the blocks, whose weights are stored minus one.
#include "core/config/families/gated.h"

namespace quire::families {
namespace {

constexpr TensorKeys muse_keys() {
  TensorKeys keys;
  keys.mlp_norm = "pre_feedforward_layernorm";
  return keys;
}

// Sets the bases of RoPE. If they are not listed, every fourth layer, counted back from the last, has no
// RoPE.
void set_ropes(ModelReader& reader) {
  if (const auto bases = reader.layer_reals("layer_rope_theta", 0.0, 1e12); !bases.empty())
    return reader.set_bases(bases);
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    if ((reader.num_layers() - 1 - i) % 4 == 0) ModelReader::drop_rope(layer);
  });
}

void muse_glimmer(ModelReader& reader) {
  ModelSpec& model = reader.model();
  model.embedding.norm = ModelReader::bare_norm(kernels::NormKind::rms, reader.epsilon(), reader.hidden());
  model.head.norm.weight.offset = 0.0f;
  model.head.scale = reader.number_or("output_multiplier", 0.19611613513818404, 1e-9, 1e9);
  model.head.softcap = reader.number_or("final_logit_softcapping", 20.0, 0.0, 1e6);
  set_ropes(reader);
  const float scale = reader.number_or("qk_scale_factor", 3.87, 1e-9, 1e9);
  const float epsilon = reader.number_or("post_norm_eps", 1e-8, 1e-12, 0.1);
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    layer.attention_post_norm = reader.layer_norm(i, "post_attention_layernorm");
    layer.feed_forward_post_norm = reader.layer_norm(i, "post_feedforward_layernorm");
    layer.attention_post_norm->epsilon = layer.feed_forward_post_norm->epsilon = epsilon;
    AttentionPart& part = layer.attention();
    part.qk_norm = kernels::QkNorm::each_head;  // without weights
    part.qk_norm_epsilon = reader.epsilon();
    part.scale *= scale;
    gate_attention(reader, layer, i);
  });
}

}  // namespace

const ArchitectureSpec kMuseGlimmer = {.name = "MuseGlimmerForConditionalGeneration",
                                       .model_type = "muse_glimmer_text",
                                       .keys = muse_keys(),
                                       .norm_offset = 1.0f,
                                       .qkv_bias = by_flag("attention_bias"),
                                       .attention_output_bias = by_flag("attention_bias"),
                                       .window = WindowRule::by_layer_type_from_last,
                                       .window_pattern = 4,
                                       .default_norm_epsilon = 1e-5,
                                       .default_max_positions = 131072,
                                       .default_sliding_window = 2048,
                                       .default_head_dim = 128,
                                       .refine = muse_glimmer};

}  // namespace quire::families
