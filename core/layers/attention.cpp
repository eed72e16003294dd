#include "core/layers/attention.h"

#include <algorithm>

#include "core/layers/layer_builder.h"
#include "core/layers/rows.h"
#include "core/layers/shard_heads.h"

namespace quire {

using kernels::Scratch;

namespace {

// Returns the number of tokens that a token attends to; 0: all. Attention in chunks needs at most a window of
// a chunk's length.
int32_t window_of(const AttentionPart& part) {
  if (part.sliding_window == 0 || part.chunk == 0) return std::max(part.sliding_window, part.chunk);
  return std::min(part.sliding_window, part.chunk);
}

MatrixParts adapter_outputs(const AttentionPart& part) {
  MatrixParts out;
  for (const LowRankPart& adapter : part.adapters) out.push_back(adapter.up);
  return out;
}

// Returns the number of result columns of all shards.
int32_t all_results(const AttentionPart& part) {
  const int32_t own = result_columns(part);
  return part.results.is_split() ? own / part.results.split().own() * part.results.split().total() : own;
}

void need_cache(const AttentionPart& part, Needs& all) {
  const KvSpec& kv = all.model().kvs[static_cast<size_t>(part.kv_idx)];
  all.cache({kv.num_heads, kv.head_dim, kv.value_dim, kv.index_dim, part.kv_source, window_of(part)});
  Needs::raise(all.shape().num_heads, part.heads.num_heads);
  Needs::raise(all.shape().head_dim, std::max(part.heads.head_dim, value_dim(part.heads)));
}

void cut_vectors(AttentionPart& part, const std::vector<int32_t>& queries, const std::vector<int32_t>& keys) {
  const auto elements = [](VectorPart& vector, const std::vector<int32_t>& heads, int32_t width) {
    if (!vector.name.empty())
      vector.order = std::make_shared<const std::vector<int32_t>>(columns_of_heads(heads, width));
  };
  elements(part.sinks, queries, 1);
  if (!part.qk_weight_per_head) return;
  elements(part.q_norm, queries, part.heads.head_dim);
  elements(part.k_norm, keys, part.heads.head_dim);
  elements(part.q_norm_bias, queries, part.heads.head_dim);
  elements(part.k_norm_bias, keys, part.heads.head_dim);
}

void cut_slopes(AttentionPart& part, const std::vector<int32_t>& queries) {
  if (part.slopes.empty()) return;
  std::vector<float> own;
  for (const int32_t head : queries) own.push_back(part.slopes[static_cast<size_t>(head)]);
  part.slopes = std::move(own);
}

void cut_heads(AttentionPart& part, const ShardCut& shard) {
  const kernels::AttentionSpec whole = part;
  const ShardColumns heads = shard.columns(whole.heads.num_kv_heads, 1);
  const std::vector<int32_t> keys = own_columns(heads);
  const std::vector<int32_t> queries = query_heads(whole, keys);
  part.heads.num_kv_heads = static_cast<int32_t>(keys.size());
  part.heads.num_heads = static_cast<int32_t>(queries.size());
  if (part.latent) {
    cut(*part.latent, whole, queries);
  } else {
    const std::vector<int32_t> columns = qkv_columns_of(whole, queries, keys);
    const MatrixParts own = selected_outputs(adapter_outputs(part), columns);
    for (size_t i = 0; i < own.size(); ++i) part.adapters[i].up = own[i];
    part.qkv = selected_outputs(part.qkv, columns);
  }
  cut_vectors(part, queries, keys);
  cut_slopes(part, queries);
  // With heads_apart the results of a token are gathered as several rows, each with one query head per KV
  // head.
  const int32_t per_key = whole.heads.num_heads / whole.heads.num_kv_heads;
  const int32_t width = value_dim(whole.heads) * (whole.heads_apart ? 1 : per_key);
  part.results = heads;
  for (int32_t& start : part.results.starts) start *= width;
}

}  // namespace

void build(const AttentionPart& part, LayerBuilder& builder, AttentionLayer& layer) {
  static_cast<kernels::AttentionSpec&>(layer) = static_cast<const kernels::AttentionSpec&>(part);
  layer.rope_idx = part.rope_idx;
  layer.columns.results = part.results;
  layer.columns.outputs = part.outputs;
  if (part.sub_norm) build(*part.sub_norm, builder, layer.sub_norm.emplace());
  layer.norms = {builder.vector(part.q_norm), builder.vector(part.k_norm), builder.vector(part.q_norm_bias),
                 builder.vector(part.k_norm_bias)};
  layer.sinks = builder.vector(part.sinks);
  if (!part.slopes.empty()) layer.slopes = builder.floats(part.slopes, "slopes of ALiBi");
  if (!part.qkv.empty()) builder.request(layer.qkv.matrix, part.qkv);
  layer.qkv.adapters.resize(part.adapters.size());
  for (size_t i = 0; i < part.adapters.size(); ++i) {
    build(part.adapters[i], builder, layer.qkv.adapters[i].path);
    layer.qkv.adapters[i].columns = part.adapters[i].up.outputs();
  }
  if (!part.output.key.empty()) builder.request(layer.output, {part.output});
  if (part.latent) build(*part.latent, builder, layer.latent.emplace());
  if (part.indexer) build(*part.indexer, builder, layer.indexer.emplace());
  if (part.head_experts) build(*part.head_experts, builder, layer.head_experts.emplace());
  if (part.differential)
    build(*part.differential, value_dim(part.heads), builder, layer.change.emplace<DifferentialLayer>());
  if (part.gate) build(*part.gate, builder, layer.change.emplace<OutputGateLayer>());
}

void cut(AttentionPart& part, bool cuts_heads, ShardCut& shard) {
  KvSpec kv = shard.whole().kvs[static_cast<size_t>(part.kv_idx)];
  if (cuts_heads) {
    cut_heads(part, shard);
    kv.num_heads = part.heads.num_kv_heads;
  }
  part.kv_idx = shard.kv_index(kv);
  if (part.head_experts) return;
  part.outputs = shard.hidden();
  keep_own_outputs(part.output, part.outputs);
}

void needs(const AttentionPart& part, Needs& all) {
  need_cache(part, all);
  const int32_t results = all_results(part);
  Needs::raise(all.shape().columns.qkv, qkv_columns(part));
  Needs::raise(all.shape().columns.attention, results);
  all.row(qkv_columns(part));
  all.row(results);
  if (part.results.is_split()) all.scratch(Scratch::slice, result_columns(part));
  all.slice(part.outputs);
  if (part.selects_keys) all.shape().columns.selects_keys = true;
  if (!part.adapters.empty()) all.scratch(Scratch::query, qkv_columns(part));
  for (const LowRankPart& adapter : part.adapters) {
    needs(adapter, all);
    all.scratch(Scratch::expanded, adapter.up.outputs());
  }
  if (part.latent) needs(*part.latent, all);
  if (part.indexer) needs(*part.indexer, all);
  if (part.differential) needs(*part.differential, results, all);
  if (part.head_experts) needs(*part.head_experts, part, all);
  if (part.gate) needs(*part.gate, all);
}

void each_weight(const AttentionLayer& layer, WeightVisitor& visitor) {
  visitor.matrix(layer.qkv.matrix, 1.0);
  visitor.matrix(layer.output, 1.0);
  for (const QkvAdapter& adapter : layer.qkv.adapters) each_weight(adapter.path, visitor);
  if (layer.sub_norm) each_weight(*layer.sub_norm, visitor);
  for (const DeviceBuffer* vector : {&layer.norms.q, &layer.norms.k, &layer.norms.q_bias, &layer.norms.k_bias,
                                     &layer.sinks, &layer.slopes})
    visitor.vector(*vector);
  if (layer.latent) each_weight(*layer.latent, visitor);
  if (layer.indexer) each_weight(*layer.indexer, visitor);
  if (layer.head_experts) each_weight(*layer.head_experts, visitor);
  if (const auto* gate = std::get_if<OutputGateLayer>(&layer.change)) each_weight(*gate, visitor);
}

uint64_t mechanisms(const AttentionPart& part) {
  uint64_t bits = kernels::mechanisms_of(part) | mechanisms(part.sub_norm, kernels::kMechanismSubNorm);
  if (part.latent) bits |= mechanisms(*part.latent);
  if (part.head_experts) bits |= mechanisms(*part.head_experts);
  if (part.differential) bits |= mechanisms(*part.differential);
  return bits;
}

bool can_cut_heads(const AttentionPart& part, const ShardCut& shard) {
  return part.heads.num_kv_heads >= shard.num_shards() && !part.head_experts &&
         part.qk_norm != kernels::QkNorm::all_heads;
}

int32_t source_of_pages(const AttentionPart& part) {
  return part.kv_source;
}

int32_t first_source(const AttentionPart& part, int32_t layer) {
  int32_t first = layer;
  for (const int32_t source : {part.kv_source, part.selection_source})
    if (source >= 0) first = std::min(first, source);
  return first;
}

kernels::AttentionBlockParams AttentionLayer::params(const ForwardPass& pass, const LayerCache& cache) const {
  kernels::AttentionBlockParams out;
  static_cast<kernels::AttentionSpec&>(out) = static_cast<const kernels::AttentionSpec&>(*this);
  out.q_norm = norms.q.as<float>();
  out.k_norm = norms.k.as<float>();
  out.q_norm_bias = norms.q_bias.as<float>();
  out.k_norm_bias = norms.k_bias.as<float>();
  out.sinks = sinks.as<float>();
  out.slopes = slopes.as<float>();
  out.results = columns.results.split();
  out.outputs = columns.outputs.split();
  out.batch = kernels::with_page_table(pass.batch, cache.table);
  out.kv_shape = cache.shape;
  out.kv = cache.pages;
  out.workspace = pass.workspace;
  if (rope_idx >= 0) {
    out.workspace.rope_cos = pass.ropes[static_cast<size_t>(rope_idx)].cos;
    out.workspace.rope_sin = pass.ropes[static_cast<size_t>(rope_idx)].sin;
  }
  if (selects_keys) {
    out.selected = reinterpret_cast<const uint32_t*>(pass.workspace.at(Scratch::selected));
    out.selected_words = selection_words(pass);
  }
  return out;
}

void AttentionLayer::run(const ForwardPass& pass, const kernels::AttentionBlockParams& params) const {
  pass.context.check(pass.context.table().attention_block(pass.context.handle(), &params), "attention");
}

void AttentionLayer::forward(const ForwardPass& pass, const LayerCache& cache, const Block& block) const {
  if (head_experts) return run_head_experts(pass, cache, block);
  kernels::AttentionBlockParams all = params(pass, cache);
  const kernels::NormParams of_result = block.post_norm ? block.post_norm->params() : kernels::NormParams();
  const kernels::NormParams within = sub_norm ? sub_norm->params() : kernels::NormParams();
  all.norm = block.norm.params();
  all.input = block.input;
  if (block.post_norm) all.post_norm = &of_result;
  if (sub_norm) all.sub_norm = &within;
  const auto* const gate = std::get_if<OutputGateLayer>(&change);
  const auto* const differential = std::get_if<DifferentialLayer>(&change);
  if (latent || gate != nullptr || !qkv.adapters.empty()) all.input = block.input_rows(pass);
  if (gate != nullptr) gate->project(pass, all.input);
  if (latent) {
    latent->forward(pass, *this, all.input);
    const RopeTables tables = rope_idx >= 0 ? pass.ropes[static_cast<size_t>(rope_idx)] : RopeTables();
    if (indexer) indexer->forward(pass, cache, tables, all.input);
  } else if (!qkv.adapters.empty()) {
    adapt_qkv(pass, all.input);
  } else {
    all.qkv = qkv.matrix.get();
  }
  if (gate == nullptr && differential == nullptr) all.output = output.get();
  run(pass, all);
  const int32_t num_results = columns.results.total(result_columns(*this));
  if (gate != nullptr) {
    gate->apply(pass, num_results);
    add_results(pass, pass.workspace.attention, block);
  } else if (differential != nullptr) {
    add_results(pass, differential->forward(pass, num_results), block);
  }
}

void AttentionLayer::adapt_qkv(const ForwardPass& pass, const void* input) const {
  const kernels::Workspace& space = pass.workspace;
  const int32_t width = qkv_columns(*this);
  float* const rows = space.at(Scratch::query);
  multiply_rows(pass, qkv.matrix, input, rows, pass.num_tokens());
  kernels::RowOpParams sum;
  sum.op = kernels::RowOp::add;
  sum.target = rows;
  sum.target_stride = width;
  sum.a = space.at(Scratch::expanded);
  for (const QkvAdapter& adapter : qkv.adapters) {
    adapter.path.forward(pass, input, space.at(Scratch::expanded));
    sum.columns = adapter.columns;
    run_row_op(pass, sum);
    sum.target = static_cast<float*>(sum.target) + adapter.columns;
  }
  kernels::RowOpParams round;
  round.op = kernels::RowOp::copy;
  round.target = space.qkv;
  round.target_is_activation = true;
  round.a = rows;
  round.columns = width;
  run_row_op(pass, round);
}

void AttentionLayer::add_results(const ForwardPass& pass, const void* results, const Block& block) const {
  const int32_t tokens = pass.num_tokens();
  if (!block.post_norm)
    return multiply_rows_onto(pass, output, results, pass.workspace.hidden, tokens, columns.outputs);
  float* given = pass.workspace.at(Scratch::projected);
  multiply_rows(pass, output, results, given, tokens, columns.outputs);
  block.add_result(pass, given);
}

// Computes the queries with the experts, then attention, then the outputs with the experts.
void AttentionLayer::run_head_experts(const ForwardPass& pass, const LayerCache& cache,
                                      const Block& block) const {
  head_experts->make_qkv(pass, *this, qkv.matrix, block.input_rows(pass));
  run(pass, params(pass, cache));
  head_experts->add_results(pass, block.hidden());
}

}  // namespace quire
