// Dense feed-forward part (MLP): down(act(gate(x)) * up(x)).
#pragma once

#include <optional>

#include "core/layers/block.h"
#include "core/layers/needs.h"
#include "core/layers/shard_cut.h"

namespace quire {

struct MlpLayer : kernels::MlpSpec {
  PreparedWeight gate_up;  // parts gate, up; one part if ungated
  PreparedWeight down;
  std::optional<NormLayer> sub_norm;  // norm of the rows that down reads
  ShardColumns activated;             // columns that down reads
  ShardColumns outputs;               // columns that down computes

  // Adds the result to the residual stream.
  void forward(const ForwardPass& pass, const Block& block) const;
  // Adds the result to `target`, [tokens, hidden].
  void add_to(const ForwardPass& pass, const void* input, float* target) const;
  // Writes the result to `target`.
  void write_to(const ForwardPass& pass, const void* input, float* target) const;
  // Writes the activation of products by gate and up, [tokens, columns of gate_up], to workspace.activated.
  void activate_products(const ForwardPass& pass, const float* products) const;

 private:
  // Does the same with products in workspace.gate_up.
  void activate_products(const ForwardPass& pass) const;
  void activate(const ForwardPass& pass, const void* input) const;
};

void build(const MlpPart& part, LayerBuilder& builder, MlpLayer& layer);
void cut(MlpPart& part, const ShardCut& shard);
// Does the same for a part whose results are not rows of the residual stream.
void cut(MlpPart& part, const ShardCut& shard, ShardColumns outputs);
void needs(const MlpPart& part, Needs& all);
void each_weight(const MlpLayer& layer, WeightVisitor& visitor);
uint64_t mechanisms(const MlpPart& part);

}  // namespace quire
