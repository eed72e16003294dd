// A decoder-only transformer: its weights, and the forward pass through them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/layers/embedding.h"
#include "core/layers/head.h"
#include "core/layers/rotary.h"
#include "core/layers/transformer_layer.h"
#include "core/models/remote_stage.h"
#include "core/models/shard_spec.h"
#include "core/models/transformer_memory.h"

namespace quire {

// Consecutive layers on one device (pipeline parallelism), and the rotary angles that they share.
struct PipelineStage {
  std::shared_ptr<Device> device;  // of this shard
  int32_t first_layer = 0;
  int32_t num_layers = 0;
  bool gathers_on_host = false;  // the devices of its shards do not reach each other's memory
  // Layers of a stage of another process, which only the first shard has; null for other stages.
  std::shared_ptr<const RemoteLayers> remote;
  std::vector<RotaryLayer> ropes;  // one for each kind of RoPE in the model
  std::vector<TransformerLayer> layers;

  uint64_t rope_bytes() const;
};

// Feed-forward blocks that are on another device than their layers.
struct HostExperts {
  std::shared_ptr<Device> device;  // null: there are none
  TransformerShape shape;          // sizes of the memory there

  bool exist() const { return device != nullptr; }
};

struct DraftTransformer;

// One shard of a model; a model without shards is one shard. Immutable once built. Any number of contexts may
// run it at the same time.
struct Transformer {
  Shard shard;
  TransformerShape shape;             // sizes of this shard
  EmbeddingLayer embedding;           // on the device of the first stage; first shard only
  std::vector<PipelineStage> stages;  // never empty; the same layers on every shard
  HeadLayer head;                     // on the device of the last stage
  HostExperts host_experts;           // of layers of all stages; none if there are shards
  bool is_inner = false;  // one stage of a model whose ends are in another process: no embedding, no head
  std::vector<Transformer> peers;  // first shard only: the other shards, from rank 1 on
  // Layers before which the states of each token are copied to Scratch::states, side by side; ascending, all
  // in the last stage. The number of layers is the stream after the last one.
  std::vector<int32_t> state_layers;
  std::shared_ptr<const DraftTransformer> drafter;  // first shard only; null: none

  // Enqueues the part of a step that one stage computes, and does not wait for the device. `caches` has one
  // entry per layer of the stage. The residual stream is in workspace.hidden before and after the call; a
  // stage after the first needs it there only on the first shard. The last stage writes the requested rows of
  // logits to workspace.logits of the first shard.
  void forward(size_t stage_idx, const ForwardPass& pass, gsl::span<const LayerCache> caches) const;

  // Returns whether the stage computes the head.
  bool is_last(size_t stage_idx) const { return !is_inner && stage_idx + 1 == stages.size(); }
  // Returns the last stage before this one that lies in this process. Rows pass through its device on the way
  // between stages of other processes.
  size_t home_of(size_t stage_idx) const;
  // Returns the number of shards that a stage has here. A stage of another process counts as one: how many it
  // has there is not known here.
  int32_t num_shards_of(size_t stage_idx) const {
    return stages[stage_idx].device->is_remote() ? 1 : shard.num_shards;
  }
  // Returns whether rows travel from card to card between the home of a stage of another process and the
  // stage.
  bool is_linked(size_t stage_idx) const;
  // Returns the shard of a rank. Called on the first shard.
  const Transformer& at_rank(int32_t rank) const {
    return rank == 0 ? *this : peers[static_cast<size_t>(rank) - 1];
  }

  // Returns the devices of all stages and shards, each once. Called on the first shard.
  std::vector<std::shared_ptr<Device>> devices() const;

  // The functions below return sums over all shards. They are called on the first shard.
  template <typename Amount>
  auto sum_over_shards(Amount amount) const {
    auto total = amount(*this);
    for (const Transformer& peer : peers) total += amount(peer);
    return total;
  }
  // Calls `visit` for the matrices and tables of all shards, each with its device. Within a shard they come
  // in the order of a step.
  void each_weight(const std::function<void(const Device&, const PreparedWeight&)>& visit) const;
  // Return the device memory of all weights: the total, and the part of each shard.
  uint64_t taken_bytes() const;
  std::vector<uint64_t> shard_taken_bytes() const;
  uint64_t embedding_taken_bytes() const;
  uint64_t own_head_bytes() const;       // of this shard alone
  uint64_t drafter_taken_bytes() const;  // of the draft network, without what it borrows
  // Returns the memory of a layer of this shard alone on the device of its stage. `layer` counts from the
  // first layer of the stage, which must have this shard (num_shards_of).
  uint64_t own_layer_bytes(size_t stage_idx, size_t layer) const;
  // Returns the memory of the layer's host experts; 0 if it has none.
  uint64_t host_experts_taken_bytes(size_t stage_idx, size_t layer) const;
  // Returns the bytes of weights that a step of `num_tokens` tokens reads. The embedding table is not
  // counted, because a step reads only a few of its rows. Experts count by the expected number of chosen
  // experts, if each token chooses independently and uniformly. Stages of other processes are not counted,
  // here and in token_ops.
  uint64_t step_bytes(int32_t num_tokens) const;
  // Return the parts of it on the device of a stage of this shard, and on that of the host experts.
  uint64_t own_step_bytes(size_t stage_idx, int32_t num_tokens) const;
  uint64_t host_experts_step_bytes(int32_t num_tokens) const;
  // Return the number of multiplications and additions: of the layers' matrices for one token, and of the
  // head for one row of logits.
  int64_t token_ops() const;
  int64_t logit_ops() const;

 private:
  // Copies the states before `layer`, if a draft network reads them.
  void keep_states(const ForwardPass& pass, int32_t layer) const;
  // Copies the input of a stage from the first shard to all shards.
  void spread(const ForwardPass& pass) const;
};

// The network that proposes tokens for a model, on the device of its last stage: one stage and one shard.
struct DraftTransformer {
  Transformer network;
  bool feeds_normed = false;      // see DraftNetworkConfig
  int32_t max_positions = 0;      // of a sequence
  std::vector<TokenId> token_of;  // of each column of its logits; empty: the column itself
  std::string name;               // such as "EAGLE-3 network PATH"

  bool reads_states() const { return network.embedding.features.has_value(); }
};

}  // namespace quire
