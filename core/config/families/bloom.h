// Names of tensors that BLOOM and Falcon share.
#pragma once

#include "core/config/architecture.h"

namespace quire::families {

constexpr TensorKeys bloom_keys() {
  TensorKeys keys;
  keys.embedding = "transformer.word_embeddings";
  keys.layers = "transformer.h.";
  keys.qkv = "self_attention.query_key_value";
  keys.attention_output = "self_attention.dense";
  keys.up = "mlp.dense_h_to_4h";
  keys.down = "mlp.dense_4h_to_h";
  keys.final_norm = "transformer.ln_f";
  return keys;
}

}  // namespace quire::families
