// The last norm and the vocabulary projection, for the rows whose logits are wanted.
#pragma once

#include <vector>

#include "core/layers/forward_pass.h"
#include "core/layers/norm.h"
#include "core/tensor/shard_columns.h"

namespace quire {

struct HeadLayer {
  NormLayer norm;
  PreparedWeight projection;  // [hidden, vocabulary]
  int32_t vocab_size = 0;
  float logit_scale = 1.0f;
  float softcap = 0.0f;
  std::vector<PreparedWeight> stream_projections;  // of the residual streams beside the first
  ShardColumns vocabulary;

  // Leaves [num_logit_rows, vocab_size] f32 in workspace.logits, of shards in that of the first.
  void forward(const ForwardPass& pass) const;

  template <typename Visit>
  void each_matrix(Visit visit) const {
    visit(projection, 1.0);
    for (const PreparedWeight& matrix : stream_projections) visit(matrix, 1.0);
  }

 private:
  void join_streams(const ForwardPass& pass) const;
};

}  // namespace quire
