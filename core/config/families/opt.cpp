// OPT and Galactica: learned positions, ungated ReLU. OPT 350M has its norms after the residual sums, and an
// embedding that is narrower than its layers.
#include "core/config/families/families.h"

namespace quire::families {
namespace {

constexpr TensorKeys opt_keys() {
  TensorKeys keys;
  keys.embedding = "model.decoder.embed_tokens";
  keys.layers = "model.decoder.layers.";
  keys.attention_norm = "self_attn_layer_norm";
  keys.attention_output = "self_attn.out_proj";
  keys.mlp_norm = "final_layer_norm";
  keys.up = "fc1";
  keys.down = "fc2";
  keys.final_norm = "model.decoder.final_layer_norm";
  return keys;
}

// Removes the weights of all norms, which remain layer norms.
void drop_norm_weights(ModelReader& reader) {
  const auto drop = [](NormPart& norm) { norm.weight = norm.bias = {}; };
  drop(reader.model().head.norm);
  reader.each_layer([&](LayerSpec& layer, int32_t) {
    drop(layer.attention_norm);
    drop(layer.feed_forward_norm);
  });
}

// Moves the norms from before the blocks to after the residual sums.
void norm_sums(ModelReader& reader) {
  const NormPart none = ModelReader::bare_norm(kernels::NormKind::none, reader.epsilon(), reader.hidden());
  reader.each_layer([&](LayerSpec& layer, int32_t) {
    layer.attention_post_norm = layer.attention_norm;
    layer.feed_forward_post_norm = layer.feed_forward_norm;
    layer.attention_post_norm->of_sum = layer.feed_forward_post_norm->of_sum = true;
    layer.attention_norm = layer.feed_forward_norm = none;
  });
}

void project_embedding(ModelReader& reader) {
  const int32_t hidden = reader.hidden();
  const int32_t width = reader.int_or("word_embed_proj_dim", hidden, 1, 65536);
  if (width == hidden) return;
  reader.model().embedding.projection = reader.matrix("model.decoder.project_in", width, hidden);
  reader.model().head.narrowing = reader.matrix("model.decoder.project_out", hidden, width);
  reader.model().head.projection.num_in = width;
}

void opt(ModelReader& reader) {
  reader.use_learned_positions("model.decoder.embed_positions", 2);
  if (!reader.flag("layer_norm_elementwise_affine", true)) drop_norm_weights(reader);
  const bool is_before = reader.flag("do_layer_norm_before", true);
  if (!is_before) norm_sums(reader);
  const bool is_removed = reader.flag("_remove_final_layer_norm");
  if (!is_before || is_removed)
    reader.model().head.norm =
        ModelReader::bare_norm(kernels::NormKind::none, reader.epsilon(), reader.hidden());
  project_embedding(reader);
}

}  // namespace

const ArchitectureSpec kOpt = {.name = "OPTForCausalLM",
                               .model_type = "opt",
                               .keys = opt_keys(),
                               .norm = kernels::NormKind::layer,
                               .gated_mlp = false,
                               .qkv_bias = by_flag("enable_bias", true),
                               .attention_output_bias = by_flag("enable_bias", true),
                               .mlp_bias = by_flag("enable_bias", true),
                               .tied_by_default = true,
                               .default_activation = "relu",
                               .default_norm_epsilon = 1e-5,
                               .refine = opt};

}  // namespace quire::families
