// A decoder-only transformer: what it is made of, and one pass through it, top to bottom.
#pragma once

#include <vector>

#include "core/layers/attention.h"
#include "core/layers/embedding.h"
#include "core/layers/head.h"
#include "core/layers/mlp.h"

namespace quire {

struct TransformerLayer {
  AttentionLayer attention;
  MlpLayer mlp;
};

// Immutable once built; any number of contexts run it at the same time.
struct Transformer {
  EmbeddingLayer embedding;
  RotaryLayer rotary;
  std::vector<TransformerLayer> layers;
  HeadLayer head;

  // Enqueues a whole step; `kv` has one entry per layer. The logits of the rows asked for are then in
  // workspace.logits. Does not wait for the device.
  void forward(const ForwardPass& pass, gsl::span<const kernels::KvLayer> kv) const;

  // Device memory of all weights.
  uint64_t weight_bytes() const;
  // Of them, what a step reads: of the embedding table it reads a row or two.
  uint64_t step_bytes() const { return weight_bytes() - embedding.table.bytes(); }
  // Multiplications and additions of the layers' matrices for one token; those of the head for one row of
  // logits.
  int64_t token_ops() const;
  int64_t logit_ops() const { return 2 * head.projection.num_products(); }
};

}  // namespace quire
