// GPT-J: parallel attention and MLP share one norm; interleaved RoPE on the first dimensions of each head;
// the head has a bias.
#include "core/config/families/families.h"

namespace quire::families {
namespace {

constexpr TensorKeys gptj_keys() {
  TensorKeys keys;
  keys.embedding = "transformer.wte";
  keys.layers = "transformer.h.";
  keys.attention_norm = keys.mlp_norm = "ln_1";
  keys.query = "attn.q_proj";
  keys.key = "attn.k_proj";
  keys.value = "attn.v_proj";
  keys.attention_output = "attn.out_proj";
  keys.up = "mlp.fc_in";
  keys.down = "mlp.fc_out";
  keys.final_norm = "transformer.ln_f";
  return keys;
}

void gptj(ModelReader& reader) {
  reader.model().head.projection.bias = BiasRule::required;
  reader.model().ropes.clear();
  RopeSpec rope;
  rope.rotary_dim = reader.int_or("rotary_dim", 64, 2, 1024);
  reader.each_layer([&](LayerSpec& layer, int32_t) {
    layer.parallel = layer.shares_norm = true;
    reader.set_rope(layer, rope);
  });
}

}  // namespace

const ArchitectureSpec kGptJ = {.name = "GPTJForCausalLM",
                                .model_type = "gptj",
                                .keys = gptj_keys(),
                                .norm = kernels::NormKind::layer,
                                .gated_mlp = false,
                                .default_intermediate_ratio = 4,
                                .rope_style = kernels::RopeStyle::gptj_pairs,
                                .mlp_bias = kAlways,
                                .default_activation = "gelu_new",
                                .default_norm_epsilon = 1e-5,
                                .default_special_token = 50256,
                                .refine = gptj};

}  // namespace quire::families
