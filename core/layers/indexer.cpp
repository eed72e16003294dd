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
  if (part.pool == 1) return;
  builder.request(layer.gate, {part.gate});
  layer.pool_bias = builder.vector(part.pool_bias);
}

void needs(const IndexerPart& part, Needs& all) {
  all.scratch(Scratch::index_query, part.query.num_out);
  all.scratch(Scratch::index_key, index_columns(part));
  if (part.pool > 1) all.scratch(Scratch::other, part.head_dim);
  all.scratch(Scratch::weights, part.num_heads);
}

void each_weight(const IndexerLayer& layer, WeightVisitor& visitor) {
  for (const PreparedWeight* matrix : {&layer.query, &layer.key, &layer.weights, &layer.gate})
    visitor.matrix(*matrix, 1.0);
  each_weight(layer.key_norm, visitor);
  visitor.vector(layer.pool_bias);
}

void IndexerLayer::make_keys(const ForwardPass& pass, const void* input) const {
  const int32_t tokens = pass.num_tokens(), columns = index_columns(*this);
  float* const rows = pass.workspace.at(Scratch::index_key);
  float* const keys = pool > 1 ? pass.workspace.at(Scratch::other) : rows;
  multiply_rows(pass, key, input, keys, tokens);
  norm_rows_f32(pass, key_norm, keys, keys, tokens);
  if (pool == 1) return;
  copy_rows(pass, rows, columns, keys, head_dim, head_dim);
  float* const gates = keys;
  multiply_rows(pass, gate, input, gates, tokens);
  copy_rows(pass, rows + head_dim, columns, gates, head_dim, head_dim);
}

void IndexerLayer::forward(const ForwardPass& pass, const LayerCache& cache, const RopeTables& tables,
                           const void* input) const {
  const kernels::Workspace& space = pass.workspace;
  const int32_t tokens = pass.num_tokens();
  multiply_rows(pass, query, space.at(Scratch::low_rank_normed), space.at(Scratch::index_query), tokens);
  make_keys(pass, input);
  multiply_rows(pass, weights, input, space.at(Scratch::weights), tokens);
  kernels::SelectKeysParams params;
  static_cast<kernels::IndexerSpec&>(params) = static_cast<const kernels::IndexerSpec&>(*this);
  params.query = space.at(Scratch::index_query);
  params.key = space.at(Scratch::index_key);
  params.pool_bias = pool_bias.as<float>();
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
