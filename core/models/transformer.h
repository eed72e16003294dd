// A decoder-only transformer: what it is made of, and one pass through it, top to bottom.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "core/layers/embedding.h"
#include "core/layers/head.h"
#include "core/layers/rotary.h"
#include "core/layers/transformer_layer.h"
#include "core/models/shard_spec.h"
#include "core/models/transformer_memory.h"

namespace quire {

// Layers that follow each other on one device, and the rotary angles they share.
struct PipelineStage {
  std::shared_ptr<Device> device;
  int32_t first_layer = 0;
  std::vector<RotaryLayer> ropes;  // all kinds of the model
  std::vector<TransformerLayer> layers;

  uint64_t rope_bytes() const;
};

// What one shard has of a model; of a model without shards, all of it. Immutable once built; any number of
// contexts run it at the same time.
struct Transformer {
  Shard shard;
  TransformerShape shape;             // of the shard
  EmbeddingLayer embedding;           // on the device of the first stage; of the first shard alone
  std::vector<PipelineStage> stages;  // never empty; the same layers on every shard
  HeadLayer head;                     // on the device of the last
  std::vector<Transformer> peers;     // of the first shard: the others, from rank 1 on

  // Enqueues the part of a step that one stage does; `caches` has one entry for each of its layers. The
  // residual stream lies in workspace.hidden, for every stage but the first also before the call, there on
  // the first shard alone. After the last one the logits of the rows asked for are in workspace.logits of the
  // first shard. Does not wait for the device.
  void forward(size_t stage_idx, const ForwardPass& pass, gsl::span<const LayerCache> caches) const;

  bool is_last(size_t stage_idx) const { return stage_idx + 1 == stages.size(); }
  // Of the first shard.
  const Transformer& at_rank(int32_t rank) const {
    return rank == 0 ? *this : peers[static_cast<size_t>(rank) - 1];
  }

  // All below are sums over the shards, asked of the first one.
  template <typename Amount>
  auto sum_over_shards(Amount amount) const {
    auto total = amount(*this);
    for (const Transformer& peer : peers) total += amount(peer);
    return total;
  }
  // The matrices and tables of all shards, each with the device that has it, in the order of a step.
  void each_weight(const std::function<void(const Device&, const PreparedWeight&)>& visit) const;
  // Device memory that all weights take; of each shard.
  uint64_t taken_bytes() const;
  std::vector<uint64_t> shard_taken_bytes() const;
  uint64_t embedding_taken_bytes() const;
  uint64_t head_taken_bytes() const;
  uint64_t rope_bytes(size_t stage_idx) const;
  uint64_t layer_taken_bytes(size_t stage_idx, size_t layer) const;  // counted within the stage
  // Bytes of weights that a step of so many tokens reads: all but the embedding table, of which it reads a
  // row or two. Of experts as many as are chosen on average where each token chooses by itself, any as
  // likely.
  uint64_t step_bytes(int32_t num_tokens) const;
  // Multiplications and additions of the layers' matrices for one token; those of the head for one row of
  // logits.
  int64_t token_ops() const;
  int64_t logit_ops() const;

 private:
  // What the first shard has before a stage, for all of them.
  void spread(const ForwardPass& pass) const;
};

}  // namespace quire
