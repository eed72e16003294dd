#include "core/layers/attention.h"

#include "core/layers/rows.h"

namespace quire {
namespace {

using kernels::Scratch;

int32_t mask_words(const ForwardPass& pass) {
  return (pass.max_context + 31) / 32;
}

}  // namespace

kernels::AttentionBlockParams AttentionLayer::block(const ForwardPass& pass, const LayerCache& cache) const {
  kernels::AttentionBlockParams params;
  static_cast<kernels::AttentionSpec&>(params) = static_cast<const kernels::AttentionSpec&>(*this);
  params.norm = norm.params();
  params.qkv = qkv.get();
  params.output = output.get();
  params.q_norm = q_norm.as<float>();
  params.k_norm = k_norm.as<float>();
  params.sinks = sinks.as<float>();
  params.results = results.split();
  params.outputs = outputs.split();
  params.batch = kernels::with_page_table(pass.batch, cache.table);
  params.kv_shape = cache.shape;
  params.kv = cache.pages;
  params.workspace = pass.workspace;
  if (rope_idx >= 0) {
    params.workspace.rope_cos = pass.ropes[static_cast<size_t>(rope_idx)].cos;
    params.workspace.rope_sin = pass.ropes[static_cast<size_t>(rope_idx)].sin;
  }
  if (selects_keys) {
    params.selected = reinterpret_cast<const uint32_t*>(pass.workspace.at(Scratch::selected));
    params.selected_words = mask_words(pass);
  }
  return params;
}

void AttentionLayer::run(const ForwardPass& pass, const kernels::AttentionBlockParams& params) const {
  pass.context.check(pass.context.table().attention_block(pass.context.handle(), &params), "attention");
}

void AttentionLayer::forward(const ForwardPass& pass, const LayerCache& cache, const void* input,
                             const kernels::Weight* next) const {
  if (head_experts) return forward_head_experts(pass, cache, input_rows(pass, input));
  kernels::AttentionBlockParams params = block(pass, cache);
  const kernels::NormParams of_result = post_norm ? post_norm->params() : kernels::NormParams();
  const kernels::NormParams within = sub_norm ? sub_norm->params() : kernels::NormParams();
  if (post_norm) params.post_norm = &of_result;
  if (sub_norm) params.sub_norm = &within;
  params.input = input;
  params.next = next;
  if (low_rank) {
    const void* rows = input_rows(pass, input);
    expand_latent(pass, rows);
    if (indexer) select_keys(pass, cache, rows);
    params.qkv = nullptr;
  }
  if (differential) params.output = nullptr;
  run(pass, params);
  if (differential) finish_differential(pass);
}

const void* AttentionLayer::input_rows(const ForwardPass& pass, const void* input) const {
  if (input != nullptr) return input;
  norm_rows(pass, norm, pass.workspace.hidden, pass.workspace.normed, pass.num_tokens());
  return pass.workspace.normed;
}

void AttentionLayer::expand_latent(const ForwardPass& pass, const void* input) const {
  const kernels::Workspace& space = pass.workspace;
  const int32_t tokens = pass.num_tokens();
  const LatentLayer& layer = *low_rank;
  const void* of_query = input;
  if (layer.query_down.get() != nullptr) {
    float* low = space.at(Scratch::low_rank);
    multiply_rows(pass, layer.query_down, input, low, tokens);
    norm_rows(pass, layer.query_norm, low, space.at(Scratch::low_rank_normed), tokens);
    of_query = space.at(Scratch::low_rank_normed);
  }
  multiply_rows(pass, layer.query, of_query, space.at(Scratch::query), tokens);
  float* latent = space.at(Scratch::latent);
  multiply_rows(pass, layer.latent, input, latent, tokens);
  kernels::NormParams normed = layer.latent_norm.params();
  normed.input = latent;
  normed.input_stride = layer.latent_norm.columns + rotary_dim;
  normed.rows = tokens;
  normed.output = space.at(Scratch::row);
  pass.context.check(pass.context.table().norm(pass.context.handle(), &normed), "a norm");
  multiply_rows(pass, layer.expand, space.at(Scratch::row), space.at(Scratch::expanded), tokens);
  kernels::ExpandLatentParams params;
  static_cast<kernels::AttentionSpec&>(params) = static_cast<const kernels::AttentionSpec&>(*this);
  params.query = space.at(Scratch::query);
  params.latent = latent;
  params.expanded = space.at(Scratch::expanded);
  params.latent_columns = layer.latent_norm.columns;
  params.num_tokens = tokens;
  params.qkv = space.qkv;
  pass.context.check(pass.context.table().expand_latent(pass.context.handle(), &params), "latent attention");
}

void AttentionLayer::select_keys(const ForwardPass& pass, const LayerCache& cache, const void* input) const {
  const kernels::Workspace& space = pass.workspace;
  const int32_t tokens = pass.num_tokens();
  multiply_rows(pass, indexer->query, space.at(Scratch::low_rank_normed), space.at(Scratch::index_query),
                tokens);
  float* key = space.at(Scratch::index_key);
  multiply_rows(pass, indexer->key, input, key, tokens);
  norm_rows_f32(pass, indexer->key_norm, key, key, tokens);
  multiply_rows(pass, indexer->weights, input, space.at(Scratch::weights), tokens);
  kernels::SelectKeysParams params;
  static_cast<kernels::IndexerSpec&>(params) = static_cast<const kernels::IndexerSpec&>(*indexer);
  params.query = space.at(Scratch::index_query);
  params.key = key;
  params.weights = space.at(Scratch::weights);
  params.cos = pass.ropes[static_cast<size_t>(rope_idx)].cos;
  params.sin = pass.ropes[static_cast<size_t>(rope_idx)].sin;
  params.batch = kernels::with_page_table(pass.batch, cache.table);
  params.kv_shape = cache.shape;
  params.kv = cache.pages;
  params.selected = reinterpret_cast<uint32_t*>(space.at(Scratch::selected));
  params.selected_words = mask_words(pass);
  pass.context.check(pass.context.table().select_keys(pass.context.handle(), &params), "choosing keys");
}

// Columns of rows of q, k and v, from column `first` on.
void AttentionLayer::copy_to_qkv(const ForwardPass& pass, const void* rows, int32_t first,
                                 int32_t columns) const {
  const size_t element = kernels::dtype_bytes(pass.context.table().activation_dtype);
  kernels::RowOpParams params;
  params.op = kernels::RowOp::copy;
  params.target = static_cast<uint8_t*>(pass.workspace.qkv) + static_cast<size_t>(first) * element;
  params.target_is_activation = true;
  params.target_stride = qkv_columns(*this);
  params.a = rows;
  params.a_is_activation = true;
  params.columns = columns;
  run_row_op(pass, params);
}

void AttentionLayer::forward_head_experts(const ForwardPass& pass, const LayerCache& cache,
                                          const void* input) const {
  const kernels::Workspace& space = pass.workspace;
  const HeadExpertsLayer& experts = *head_experts;
  const int32_t rows = pass.num_tokens() * experts.router.num_chosen;
  experts.router.forward(pass, {.rows = input});
  float* queries = space.at(Scratch::query);
  multiply_experts(pass, experts.query, {input, experts.router.num_chosen, nullptr, rows}, {queries});
  float* keys = space.at(Scratch::expanded);
  multiply_rows_to_activations(pass, qkv, input, keys);
  const int32_t of_query = query_columns(*this);
  copy_to_qkv(pass, queries, 0, of_query);
  copy_to_qkv(pass, keys, of_query, qkv_columns(*this) - of_query);
  kernels::AttentionBlockParams params = block(pass, cache);
  params.qkv = nullptr;
  params.output = nullptr;
  run(pass, params);
  float* given = space.at(Scratch::expert_out);
  multiply_experts(pass, experts.output, {space.attention, 1, nullptr, rows, true}, {given});
  kernels::CombineParams sum;
  sum.input = given;
  sum.weights = space.at(Scratch::weights);
  sum.num_chosen = experts.router.num_chosen;
  sum.tokens = pass.num_tokens();
  sum.columns = norm.columns;
  sum.target = space.at(Scratch::projected);
  pass.context.check(pass.context.table().combine(pass.context.handle(), &sum), "experts of heads");
  kernels::RowOpParams bias;
  bias.op = kernels::RowOp::add_columns;
  bias.target = space.at(Scratch::projected);
  bias.a = experts.output_bias.as<float>();
  bias.columns = norm.columns;
  run_row_op(pass, bias);
  add_rows(pass, space.hidden, space.at(Scratch::projected), norm.columns);
}

// Heads come in two halves; a head of the result is as wide as two of queries.
void AttentionLayer::finish_differential(const ForwardPass& pass) const {
  const kernels::Workspace& space = pass.workspace;
  const int32_t columns = results.total(result_columns(*this)) / 2;
  float* difference = space.at(Scratch::other);
  kernels::RowOpParams params;
  params.op = kernels::RowOp::differ;
  params.target = difference;
  params.a = space.attention;
  params.a_is_activation = true;
  params.a_stride = 2 * columns;
  params.columns = columns;
  params.factor = differential->lambda;
  run_row_op(pass, params);
  const int32_t pairs = columns / differential->norm.columns;
  void* normed = space.at(Scratch::row);
  norm_rows(pass, differential->norm, difference, normed, pass.num_tokens() * pairs);
  multiply_rows_onto(pass, output, normed, space.hidden, pass.num_tokens(), outputs);
}

}  // namespace quire
