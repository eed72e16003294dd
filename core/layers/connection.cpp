#include "core/layers/connection.h"

#include "core/layers/layer_builder.h"
#include "core/layers/rows.h"

namespace quire {

using kernels::Scratch;

namespace {

void build_one(const ConnectionPart& part, LayerBuilder& builder, ConnectionLayer& layer) {
  static_cast<kernels::ConnectionSpec&>(layer) = static_cast<const kernels::ConnectionSpec&>(part);
  builder.request(layer.products, {part.products});
  build(part.norm, builder, layer.norm);
  layer.scale = builder.vector(part.scale);
  layer.base = builder.vector(part.base);
}

}  // namespace

void build(const ConnectionsPart& part, LayerBuilder& builder, ConnectionsLayer& layer) {
  build_one(part.mixer, builder, layer.mixer);
  build_one(part.feed_forward, builder, layer.feed_forward);
}

void needs(const ConnectionsPart& part, Needs& all) {
  for (const ConnectionPart* const one : {&part.mixer, &part.feed_forward}) {
    all.matrix(one->products);
    all.scratch(Scratch::expanded, one->products.num_in);
    all.scratch(Scratch::other, one->products.outputs());
    all.scratch(Scratch::more_streams, connection_coefficients(*one));
  }
}

void each_weight(const ConnectionsLayer& layer, WeightVisitor& visitor) {
  for (const ConnectionLayer* const one : {&layer.mixer, &layer.feed_forward}) {
    visitor.matrix(one->products, 1.0);
    each_weight(one->norm, visitor);
    visitor.vector(one->scale);
    visitor.vector(one->base);
  }
}

uint64_t mechanisms(const ConnectionsPart&) {
  return kernels::kMechanismStreams;
}

const void* ConnectionLayer::enter(const ForwardPass& pass, const NormLayer& block_norm) const {
  const kernels::Workspace& space = pass.workspace;
  const int32_t tokens = pass.num_tokens();
  norm_rows(pass, norm, space.at(Scratch::streams), space.at(Scratch::expanded), tokens);
  multiply_rows(pass, products, space.at(Scratch::expanded), space.at(Scratch::other), tokens);
  kernels::CollapseStreamsParams params;
  static_cast<kernels::ConnectionSpec&>(params) = *this;
  params.products = space.at(Scratch::other);
  params.scale = scale.as<float>();
  params.base = base.as<float>();
  params.streams = space.at(Scratch::streams);
  params.coefficients = space.at(Scratch::more_streams);
  params.x = space.hidden;
  params.tokens = tokens;
  pass.context.check(pass.context.table().collapse_streams(pass.context.handle(), &params),
                     "hyper-connections");
  norm_rows(pass, block_norm, space.hidden, space.normed, tokens);
  scale_rows(pass, space.hidden, columns, 0.0f);
  return space.normed;
}

void ConnectionLayer::leave(const ForwardPass& pass) const {
  kernels::ExpandStreamsParams params;
  static_cast<kernels::ConnectionSpec&>(params) = *this;
  params.coefficients = pass.workspace.at(Scratch::more_streams);
  params.result = pass.workspace.hidden;
  params.streams = pass.workspace.at(Scratch::streams);
  params.tokens = pass.num_tokens();
  pass.context.check(pass.context.table().expand_streams(pass.context.handle(), &params),
                     "hyper-connections");
}

}  // namespace quire
