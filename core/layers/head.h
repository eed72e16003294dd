// Output head: the last norm and the vocabulary projection, for the rows whose logits are requested.
#pragma once

#include <vector>

#include "core/layers/block.h"
#include "core/layers/needs.h"
#include "core/layers/shard_cut.h"
#include "core/loader/host_tensor.h"

namespace quire {

struct HeadLayer {
  NormLayer norm;
  PreparedWeight narrowing;   // from the normalized stream to the input of `projection`; empty: none
  PreparedWeight projection;  // [hidden, vocabulary]
  int32_t input_columns = 0;  // columns that `projection` reads
  int32_t vocab_size = 0;
  float logit_scale = 1.0f;
  float softcap = 0.0f;
  std::vector<PreparedWeight> stream_projections;  // of the residual streams after the first
  int32_t num_copies = 0;                          // residual streams of hyper-connections
  ShardColumns vocabulary;
  bool is_absent = false;  // the files have none; the embedding takes its place, and its logits mean nothing

  // Writes the logits, [num_logit_rows, vocab_size] f32, to workspace.logits; with several shards, to that of
  // the first.
  void forward(const ForwardPass& pass) const;

 private:
  // Normalizes and narrows the residual stream of all tokens. Returns the rows, f32.
  float* narrow(const ForwardPass& pass) const;
  // Projects the other streams, scales each to the magnitude of the first, and replaces the residual stream
  // by the mean of all streams.
  void join_streams(const ForwardPass& pass) const;
  // Replaces the residual stream by the mean of all streams of hyper-connections.
  void average_streams(const ForwardPass& pass) const;
};

// True if the head uses the embedding table as its matrix, or if the files have no head.
bool is_tied(const HeadPart& part, const LayerBuilder& builder);
void build(const HeadPart& part, LayerBuilder& builder, HeadLayer& layer);
// Builds a head that uses the embedding table. `table` must live until the builder has prepared the matrices.
void build_tied(const HeadPart& part, const HostTensor& table, LayerBuilder& builder, HeadLayer& layer);
// Builds a head with the matrix of another model on the same device.
void build_borrowed(const HeadPart& part, const HeadLayer& lender, LayerBuilder& builder, HeadLayer& layer);
void cut(HeadPart& part, const ShardCut& shard);
void needs(const HeadPart& part, Needs& all);
void each_weight(const HeadLayer& layer, WeightVisitor& visitor);
uint64_t mechanisms(const HeadPart& part);

}  // namespace quire
