#include "core/models/transformer_shape.h"

#include "core/layers/embedding.h"
#include "core/layers/head.h"
#include "core/layers/transformer_layer.h"

namespace quire {

TransformerShape transformer_shape(const ModelSpec& model, const std::vector<bool>& on_host) {
  Needs all(model);
  for (size_t i = 0; i < model.layers.size(); ++i)
    needs(model.layers[i], all, on_host.empty() || !on_host[i]);
  needs(model.embedding, all);
  need_streams(model, all);
  needs(model.head, all);
  return all.shape();
}

TransformerShape host_experts_shape(const ModelSpec& model, const std::vector<bool>& on_host) {
  Needs all(model);
  for (size_t i = 0; i < on_host.size(); ++i)
    if (on_host[i]) needs_feed_forward(model.layers[i], all);
  TransformerShape shape = all.shape();
  shape.num_layers = 0;
  shape.rotary_dims.clear();
  return shape;
}

}  // namespace quire
