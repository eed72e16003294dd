#include "kernels/interface/composite.h"

namespace quire::kernels {
namespace {

const KernelTable& table_of(Context* context) {
  return *reinterpret_cast<ContextHeader*>(context)->table;
}

NormParams norm_into(const NormParams& norm, const float* input, int32_t rows, void* output) {
  NormParams out = norm;
  out.input = input;
  out.rows = rows;
  out.output = output;
  return out;
}

// Sets `input` to the input of a block: rows that are normalised already, or norm(hidden).
Status block_input(Context* context, const NormParams& norm, const Workspace& space, int32_t tokens,
                   const void*& input) {
  if (input != nullptr) return Status::ok;
  const NormParams params = norm_into(norm, space.hidden, tokens, space.normed);
  input = space.normed;
  return table_of(context).norm(context, &params);
}

Status project(Context* context, const Weight* weight, const void* input, int32_t rows, void* output) {
  LinearParams params = product_of(weight, input, rows);
  params.output = output;
  return table_of(context).linear(context, &params);
}

// Normalises the input of a block's last matrix in place.
Status norm_within(Context* context, const NormParams* norm, void* rows, int32_t tokens) {
  if (norm == nullptr) return Status::ok;
  const KernelTable& table = table_of(context);
  if (table.activation_dtype != DType::f32) return Status::unsupported;
  const NormParams params = norm_into(*norm, static_cast<const float*>(rows), tokens, rows);
  return table.norm(context, &params);
}

Status multiply(Context* context, const BlockProduct& product, const LinearParams& params) {
  return product.multiply != nullptr ? product.multiply(context, params, product.form)
                                     : table_of(context).linear(context, &params);
}

// Computes residual += product for a shard's columns, and gathers the columns of the other shards.
Status add_split_product(Context* context, const BlockProduct& product, const BlockEnd& end) {
  LinearParams out = product.params;
  out.residual = end.residual + end.columns.first();
  out.output_stride = end.columns.total();
  QUIRE_RETURN_IF_FAILED(multiply(context, product, out));
  return gather_in_place(context, end.columns, out.rows, end.residual);
}

// Computes the product of a shard's columns and gathers all columns in `projected`.
Status project_split(Context* context, const BlockProduct& product, const ColumnSplit& columns,
                     const EndSpace& space) {
  LinearParams out = product.params;
  out.output_f32 = columns.is_split() ? space.slice : space.projected;
  QUIRE_RETURN_IF_FAILED(multiply(context, product, out));
  if (!columns.is_split()) return Status::ok;
  return gather_rows(context, columns, space.slice, out.rows, DType::f32, space.projected);
}

}  // namespace

EndSpace end_space(const Workspace& space) {
  return {.projected = space.at(Scratch::projected), .slice = space.at(Scratch::slice)};
}

LinearParams product_of(const Weight* matrix, const void* input, int32_t rows) {
  LinearParams product;
  product.weight = matrix;
  product.input = input;
  product.rows = rows;
  return product;
}

AppendKvParams append_params(const AttentionBlockParams& params) {
  AppendKvParams append;
  static_cast<AttentionSpec&>(append) = params;
  append.qkv = params.workspace.qkv;
  append.q_norm = params.q_norm;
  append.k_norm = params.k_norm;
  append.q_norm_bias = params.q_norm_bias;
  append.k_norm_bias = params.k_norm_bias;
  append.cos = params.workspace.rope_cos;
  append.sin = params.workspace.rope_sin;
  append.batch = params.batch;
  append.kv_shape = params.kv_shape;
  append.kv = params.kv;
  return append;
}

AttentionParams attention_params(const AttentionBlockParams& params) {
  AttentionParams attention;
  static_cast<AttentionSpec&>(attention) = params;
  attention.qkv = params.workspace.qkv;
  attention.sinks = params.sinks;
  attention.slopes = params.slopes;
  attention.selected = params.selected;
  attention.selected_words = params.selected_words;
  attention.batch = params.batch;
  attention.kv_shape = params.kv_shape;
  attention.kv = params.kv;
  attention.output =
      params.results.is_split() ? params.workspace.at(Scratch::slice) : params.workspace.attention;
  return attention;
}

ActivationParams activation_params(const MlpBlockParams& params) {
  const Workspace& space = params.workspace;
  ActivationParams activation;
  static_cast<MlpSpec&>(activation) = params;
  activation.input = space.gate_up;
  activation.rows = params.num_tokens;
  activation.output = params.activated.is_split() ? space.at(Scratch::slice) : space.activated;
  return activation;
}

RouteParams route_params(const ExpertChoiceParams& params) {
  const Workspace& space = params.workspace;
  RouteParams route;
  static_cast<RouterSpec&>(route) = params;
  route.logits = space.at(Scratch::router);
  route.choice_bias = params.choice_bias;
  route.expert_scale = params.expert_scale;
  route.rows = params.num_tokens;
  route.experts = reinterpret_cast<int32_t*>(space.at(Scratch::chosen));
  route.weights = space.at(Scratch::weights);
  return route;
}

Status gather_rows(Context* context, const ColumnSplit& columns, const void* slice, int32_t rows, DType dtype,
                   void* output) {
  AllGatherParams params;
  params.columns = columns;
  params.input = slice;
  params.rows = rows;
  params.dtype = dtype;
  params.output = output;
  return table_of(context).all_gather(context, &params);
}

Status gather_in_place(Context* context, const ColumnSplit& columns, int32_t rows, float* target) {
  AllGatherParams params;
  params.columns = columns;
  params.input = target + columns.first();
  params.input_stride = columns.total();
  params.rows = rows;
  params.output = target;
  return table_of(context).all_gather(context, &params);
}

int32_t gathered_rows(const AttentionBlockParams& params) {
  return result_columns(params) / params.results.own();
}

Status gather_results(Context* context, const AttentionBlockParams& params, const int32_t* place) {
  const KernelTable& table = table_of(context);
  if (!params.results.is_split()) return Status::ok;
  AllGatherParams gather;
  gather.columns = params.results;
  gather.input = params.workspace.at(Scratch::slice);
  gather.rows = params.batch.num_tokens * gathered_rows(params);
  gather.dtype = table.activation_dtype;
  gather.output = params.workspace.attention;
  gather.place = place;
  return table.all_gather(context, &gather);
}

Status gather_activated(Context* context, const MlpBlockParams& params) {
  if (!params.activated.is_split()) return Status::ok;
  return gather_rows(context, params.activated, params.workspace.at(Scratch::slice), params.num_tokens,
                     table_of(context).activation_dtype, params.workspace.activated);
}

Status finish_block(Context* context, const BlockProduct& product, const BlockEnd& end,
                    const EndSpace& space) {
  if (end.norm == nullptr) {
    if (end.columns.is_split()) return add_split_product(context, product, end);
    LinearParams out = product.params;
    out.residual = end.residual;
    return multiply(context, product, out);
  }
  if (space.projected == nullptr)
    return failed(Status::invalid_argument, "a norm after a block without memory for the block's result");
  QUIRE_RETURN_IF_FAILED(project_split(context, product, end.columns, space));
  NormParams norm = norm_into(*end.norm, space.projected, product.params.rows, nullptr);
  norm.residual = end.residual;
  return table_of(context).norm(context, &norm);
}

Status finish_head(Context* context, const HeadParams& params, const float* own_logits) {
  const KernelTable& table = table_of(context);
  float* const logits = params.workspace.logits;
  const int32_t rows = params.batch.num_logit_rows;
  if (params.vocabulary.is_split())
    QUIRE_RETURN_IF_FAILED(gather_rows(context, params.vocabulary, own_logits, rows, DType::f32, logits));
  if (logits == nullptr) return Status::ok;  // a shard that does not draw
  if (params.logit_scale == 1.0f && params.softcap == 0.0f) return Status::ok;
  return table.scale_logits(context, logits, int64_t{rows} * params.vocab_size, params.logit_scale,
                            params.softcap);
}

Status composed_attention_block(Context* context, const AttentionBlockParams* params) {
  const KernelTable& table = table_of(context);
  const Workspace& space = params->workspace;
  const int32_t tokens = params->batch.num_tokens;
  if (params->qkv != nullptr) {
    const void* input = params->input;
    QUIRE_RETURN_IF_FAILED(block_input(context, params->norm, space, tokens, input));
    QUIRE_RETURN_IF_FAILED(project(context, params->qkv, input, tokens, space.qkv));
  }
  const AppendKvParams append = append_params(*params);
  QUIRE_RETURN_IF_FAILED(table.append_kv(context, &append));
  const AttentionParams attention = attention_params(*params);
  QUIRE_RETURN_IF_FAILED(table.attention(context, &attention));
  QUIRE_RETURN_IF_FAILED(gather_results(context, *params, nullptr));
  if (params->output == nullptr) return Status::ok;
  QUIRE_RETURN_IF_FAILED(norm_within(context, params->sub_norm, space.attention, tokens));
  return finish_block(context, {.params = product_of(params->output, space.attention, tokens)},
                      {params->post_norm, space.hidden, params->outputs}, end_space(space));
}

Status composed_mlp_block(Context* context, const MlpBlockParams* params) {
  const KernelTable& table = table_of(context);
  const Workspace& space = params->workspace;
  const int32_t tokens = params->num_tokens;
  const void* input = params->input;
  QUIRE_RETURN_IF_FAILED(block_input(context, params->norm, space, tokens, input));
  QUIRE_RETURN_IF_FAILED(project(context, params->gate_up, input, tokens, space.gate_up));
  const ActivationParams activation = activation_params(*params);
  QUIRE_RETURN_IF_FAILED(table.activation(context, &activation));
  QUIRE_RETURN_IF_FAILED(gather_activated(context, *params));
  QUIRE_RETURN_IF_FAILED(norm_within(context, params->sub_norm, space.activated, tokens));
  return finish_block(context, {.params = product_of(params->down, space.activated, tokens)},
                      {params->post_norm, space.hidden, params->outputs}, end_space(space));
}

Status composed_choose_experts(Context* context, const ExpertChoiceParams* params) {
  const KernelTable& table = table_of(context);
  const Workspace& space = params->workspace;
  const void* input = params->input;
  QUIRE_RETURN_IF_FAILED(block_input(context, params->norm, space, params->num_tokens, input));
  LinearParams product = product_of(params->router, input, params->num_tokens);
  product.output_f32 = space.at(Scratch::router);
  QUIRE_RETURN_IF_FAILED(table.linear(context, &product));
  const RouteParams route = route_params(*params);
  return table.route(context, &route);
}

Status composed_head(Context* context, const HeadParams* params) {
  const KernelTable& table = table_of(context);
  const Workspace& space = params->workspace;
  const int32_t rows = params->batch.num_logit_rows;
  if (rows == 0) return Status::ok;
  NormParams norm = norm_into(params->norm, space.hidden, rows, space.normed);
  norm.row_index = params->batch.logit_rows;
  QUIRE_RETURN_IF_FAILED(table.norm(context, &norm));
  LinearParams head = product_of(params->head, space.normed, rows);
  head.output_f32 = params->vocabulary.is_split() ? space.at(Scratch::slice) : space.logits;
  QUIRE_RETURN_IF_FAILED(table.linear(context, &head));
  return finish_head(context, *params, head.output_f32);
}

}  // namespace quire::kernels
