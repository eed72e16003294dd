#include "core/models/transformer_shape.h"

#include "core/layers/embedding.h"
#include "core/layers/head.h"
#include "core/layers/transformer_layer.h"

namespace quire {

TransformerShape transformer_shape(const ModelSpec& model) {
  Needs all(model);
  for (const LayerSpec& layer : model.layers) needs(layer, all);
  needs(model.embedding, all);
  need_streams(model, all);
  needs(model.head, all);
  return all.shape();
}

}  // namespace quire
