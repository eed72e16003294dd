// Hyper-connections (mHC): a block that reads a weighted sum of several residual streams, and whose result is
// added to all of them, after the streams are mixed.
#pragma once

#include "core/layers/block.h"
#include "core/layers/needs.h"

namespace quire {

// The streams are in Scratch::streams: [tokens, num_streams * hidden].
struct ConnectionLayer : kernels::ConnectionSpec {
  PreparedWeight products;
  NormLayer norm;  // of all streams of a token as one row
  DeviceBuffer scale;
  DeviceBuffer base;

  // Returns `block_norm` of the weighted sum of the streams, in the activation dtype, and sets the residual
  // stream in workspace.hidden to zero, so that a block adds its result to nothing. The coefficients for
  // `leave` stay in Scratch::more_streams.
  const void* enter(const ForwardPass& pass, const NormLayer& block_norm) const;
  // Mixes the streams and adds workspace.hidden to them.
  void leave(const ForwardPass& pass) const;
};

struct ConnectionsLayer {
  ConnectionLayer mixer;
  ConnectionLayer feed_forward;
};

void build(const ConnectionsPart& part, LayerBuilder& builder, ConnectionsLayer& layer);
void needs(const ConnectionsPart& part, Needs& all);
void each_weight(const ConnectionsLayer& layer, WeightVisitor& visitor);
uint64_t mechanisms(const ConnectionsPart& part);

}  // namespace quire
