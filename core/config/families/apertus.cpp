// Apertus: an ungated MLP with the xIELU activation, whose parameters are tensors.
#include "core/config/families/families.h"

namespace quire::families {
namespace {

constexpr TensorKeys apertus_keys() {
  TensorKeys keys;
  keys.attention_norm = "attention_layernorm";
  keys.mlp_norm = "feedforward_layernorm";
  return keys;
}

void apertus(ModelReader& reader) {
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    reader.norm_heads(layer, i, kernels::QkNorm::each_head);
    MlpPart& mlp = *layer.dense();
    if (mlp.activation == kernels::Activation::xielu) mlp.xielu_key = reader.key(i, "mlp.act_fn");
  });
}

}  // namespace

const ArchitectureSpec kApertus = {.name = "ApertusForCausalLM",
                                   .model_type = "apertus",
                                   .keys = apertus_keys(),
                                   .gated_mlp = false,
                                   .qkv_bias = by_flag("attention_bias"),
                                   .attention_output_bias = by_flag("attention_bias"),
                                   .default_activation = "xielu",
                                   .default_norm_epsilon = 1e-5,
                                   .default_rope_theta = 12000000.0,
                                   .default_max_positions = 65536,
                                   .refine = apertus};

}  // namespace quire::families
