// nanochat: norms without weights, also after the embedding; RoPE rotates in the opposite direction.
#include "core/config/families/families.h"

namespace quire::families {
namespace {

constexpr TensorKeys nanochat_keys() {
  TensorKeys keys;
  keys.up = "mlp.fc1";
  keys.down = "mlp.fc2";
  return keys;
}

void nanochat(ModelReader& reader) {
  ModelSpec& model = reader.model();
  model.embedding.norm = ModelReader::bare_norm(kernels::NormKind::rms, reader.epsilon(), reader.hidden());
  model.head.softcap = reader.number_or("final_logit_softcapping", 15.0, 0.0, 1e6);
  for (RopeSpec& rope : model.ropes) rope.reversed = true;
  reader.each_layer([&](LayerSpec& layer, int32_t) {
    AttentionPart& part = layer.attention();
    part.qk_norm = kernels::QkNorm::each_head;
    part.qk_norm_epsilon = reader.epsilon();
    part.norm_after_rope = true;
  });
}

}  // namespace

const ArchitectureSpec kNanoChat = {.name = "NanoChatForCausalLM",
                                    .model_type = "nanochat",
                                    .keys = nanochat_keys(),
                                    .norm_has_weight = false,
                                    .gated_mlp = false,
                                    .qkv_bias = by_flag("attention_bias"),
                                    .attention_output_bias = by_flag("attention_bias"),
                                    .default_activation = "relu2",
                                    .refine = nanochat};

}  // namespace quire::families
