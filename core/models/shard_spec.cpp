#include "core/models/shard_spec.h"

#include "core/layers/head.h"
#include "core/layers/transformer_layer.h"

namespace quire {
namespace {

// Returns for each layer whether its heads are cut. Layers that share pages are cut alike.
std::vector<bool> layers_with_cut_heads(const ModelSpec& model, const ShardCut& shard) {
  std::vector<bool> out;
  for (const LayerSpec& layer : model.layers) out.push_back(can_cut_heads(layer.mixer, shard));
  const auto source = [&](size_t i) {
    const int32_t layer = source_of_pages(model.layers[i].mixer);
    return layer < 0 ? i : static_cast<size_t>(layer);
  };
  for (size_t i = 0; i < out.size(); ++i) out[source(i)] = out[source(i)] && out[i];
  for (size_t i = 0; i < out.size(); ++i) out[i] = out[source(i)];
  return out;
}

}  // namespace

ModelSpec shard_of(const ModelSpec& model, const Shard& shard) {
  if (shard.num_shards == 1) return model;
  ModelSpec out = model;
  ShardCut parts(model, shard);
  const std::vector<bool> cuts_heads = layers_with_cut_heads(model, parts);
  for (size_t i = 0; i < out.layers.size(); ++i) cut(out.layers[i], cuts_heads[i], parts);
  out.kvs = parts.kvs();
  cut(out.head, parts);
  return out;
}

}  // namespace quire
