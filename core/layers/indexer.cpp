#include "core/layers/indexer.h"

#include "core/layers/layer_builder.h"
#include "core/layers/rows.h"

namespace quire {

using kernels::Scratch;

void build(const IndexerPart& part, LayerBuilder& builder, IndexerLayer& layer) {
  static_cast<kernels::IndexerSpec&>(layer) = static_cast<const kernels::IndexerSpec&>(part);
  builder.request(layer.query, {part.query});
  builder.request(layer.key, {part.key});
  builder.request(layer.weights, {part.weights});
  build(part.key_norm, builder, layer.key_norm);
}

void needs(const IndexerPart& part, Needs& all) {
  all.scratch(Scratch::index_query, part.query.num_out);
  all.scratch(Scratch::index_key, part.head_dim);
  all.scratch(Scratch::weights, part.num_heads);
}

void each_weight(const IndexerLayer& layer, WeightVisitor& visitor) {
  for (const PreparedWeight* matrix : {&layer.query, &layer.key, &layer.weights})
    visitor.matrix(*matrix, 1.0);
  each_weight(layer.key_norm, visitor);
}

void IndexerLayer::forward(const ForwardPass& pass, const LayerCache& cache, const RopeTables& tables,
                           const void* input) const {
  const kernels::Workspace& space = pass.workspace;
  const int32_t tokens = pass.num_tokens();
  multiply_rows(pass, query, space.at(Scratch::low_rank_normed), space.at(Scratch::index_query), tokens);
  float* of_key = space.at(Scratch::index_key);
  multiply_rows(pass, key, input, of_key, tokens);
  norm_rows_f32(pass, key_norm, of_key, of_key, tokens);
  multiply_rows(pass, weights, input, space.at(Scratch::weights), tokens);
  kernels::SelectKeysParams params;
  static_cast<kernels::IndexerSpec&>(params) = static_cast<const kernels::IndexerSpec&>(*this);
  params.query = space.at(Scratch::index_query);
  params.key = of_key;
  params.weights = space.at(Scratch::weights);
  params.cos = tables.cos;
  params.sin = tables.sin;
  params.batch = kernels::with_page_table(pass.batch, cache.table);
  params.kv_shape = cache.shape;
  params.kv = cache.pages;
  params.selected = reinterpret_cast<uint32_t*>(space.at(Scratch::selected));
  params.selected_words = selection_words(pass);
  pass.context.check(pass.context.table().select_keys(pass.context.handle(), &params), "choosing keys");
}

}  // namespace quire
