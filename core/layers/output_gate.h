// Gate of attention's result: elements are multiplied by a function of a projection of the layer's input.
#pragma once

#include "core/layers/forward_pass.h"
#include "core/layers/needs.h"
#include "core/layers/weight_visitor.h"

namespace quire {

class LayerBuilder;

// With several shards each of them computes the whole gate.
struct OutputGateLayer {
  PreparedWeight projection;  // [hidden, gates]
  int32_t num_gates = 0;
  bool is_softplus = false;

  // Computes the gate before attention, which may overwrite `input`.
  void project(const ForwardPass& pass, const void* input) const;
  // Multiplies the result of attention, `columns` gathered from all shards.
  void apply(const ForwardPass& pass, int32_t columns) const;
};

void build(const OutputGatePart& part, LayerBuilder& builder, OutputGateLayer& layer);
void needs(const OutputGatePart& part, Needs& all);
void each_weight(const OutputGateLayer& layer, WeightVisitor& visitor);

}  // namespace quire
