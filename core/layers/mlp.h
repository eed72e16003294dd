// The feed-forward half of a decoder layer.
#pragma once

#include <optional>

#include "core/layers/forward_pass.h"
#include "core/layers/norm.h"
#include "core/tensor/shard_columns.h"

namespace quire {

// down(act(gate(x)) * up(x)).
struct MlpLayer : kernels::MlpSpec {
  PreparedWeight gate_up;  // parts gate, up; one part where ungated
  PreparedWeight down;
  std::optional<NormLayer> sub_norm;  // of what down reads
  ShardColumns activated;             // that down reads
  ShardColumns outputs;               // of down

  // What it gives is added to `target`, [tokens, hidden].
  void add_to(const ForwardPass& pass, const void* input, float* target) const;
  // The same in place of what is there.
  void write_to(const ForwardPass& pass, const void* input, float* target) const;

  template <typename Visit>
  void each_matrix(Visit visit) const {
    visit(gate_up, 1.0);
    visit(down, 1.0);
  }
  template <typename Visit>
  void each_buffer(Visit visit) const {
    if (sub_norm) sub_norm->each_buffer(visit);
  }

 private:
  void activate(const ForwardPass& pass, const void* input) const;
};

}  // namespace quire
