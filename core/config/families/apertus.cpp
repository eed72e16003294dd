// Apertus: an ungated MLP with the xIELU activation, whose parameters are tensors. In Apertus 1.5 the head
// may lack the last tokens, which are parts of images and sound.
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

void apertus1p5(ModelReader& reader) {
  apertus(reader);
  ModelSpec& model = reader.model();
  const int32_t num_logits = reader.int_or("output_vocab_size", model.vocab_size, 1, model.vocab_size);
  if (num_logits == model.vocab_size) return;
  model.embedding.num_rows = model.vocab_size;
  model.vocab_size = num_logits;
  model.head.projection.num_out = num_logits;
  model.head.tied = false;
}

constexpr ArchitectureSpec kApertusRow = {.name = "ApertusForCausalLM",
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

constexpr ArchitectureSpec apertus1p5_row() {
  ArchitectureSpec row = renamed(kApertusRow, "Apertus1p5TextForCausalLM", "apertus1p5_text");
  row.refine = apertus1p5;
  return row;
}

}  // namespace

const ArchitectureSpec kApertus = kApertusRow;
const ArchitectureSpec kApertus1p5 = apertus1p5_row();

}  // namespace quire::families
