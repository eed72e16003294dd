#include "kernels/interface/composite.h"

namespace quire::kernels {
namespace {

const KernelTable& table_of(Context* context) {
  return *reinterpret_cast<ContextHeader*>(context)->table;
}

#define QUIRE_RETURN_IF_FAILED(expression)                               \
  do {                                                                   \
    const Status status_of_expression = (expression);                    \
    if (status_of_expression != Status::ok) return status_of_expression; \
  } while (false)

NormParams norm_into(const NormParams& norm, const float* input, int32_t rows, void* output) {
  NormParams out = norm;
  out.input = input;
  out.rows = rows;
  out.output = output;
  return out;
}

// Finds the input of a block: rows that are normalised already, or norm(hidden).
Status block_input(Context* context, const NormParams& norm, const Workspace& space, int32_t tokens,
                   const void*& input) {
  if (input != nullptr) return Status::ok;
  const NormParams params = norm_into(norm, space.hidden, tokens, space.normed);
  input = space.normed;
  return table_of(context).norm(context, &params);
}

LinearParams product_of(const Weight* matrix, const void* input, int32_t rows) {
  LinearParams product;
  product.weight = matrix;
  product.input = input;
  product.rows = rows;
  return product;
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

EndSpace end_space(const Workspace& space) {
  return {.projected = space.at(Scratch::projected), .slice = space.at(Scratch::slice)};
}

// Computes residual += product for a shard's columns: copies the columns out, adds the product, and gathers
// the result back.
Status add_split_product(Context* context, const LinearParams& product, const BlockEnd& end, float* slice) {
  const KernelTable& table = table_of(context);
  RowOpParams copy;
  copy.op = RowOp::copy;
  copy.target = slice;
  copy.a = end.residual + end.columns.first();
  copy.a_stride = end.columns.total();
  copy.rows = product.rows;
  copy.columns = end.columns.own();
  QUIRE_RETURN_IF_FAILED(table.row_op(context, &copy));
  LinearParams out = product;
  out.residual = slice;
  QUIRE_RETURN_IF_FAILED(table.linear(context, &out));
  return gather_rows(context, end.columns, slice, product.rows, DType::f32, end.residual);
}

// Computes the product of a shard's columns and gathers all columns in `projected`.
Status project_split(Context* context, const LinearParams& product, const BlockEnd& end,
                     const EndSpace& space) {
  LinearParams out = product;
  out.output_f32 = end.columns.is_split() ? space.slice : space.projected;
  QUIRE_RETURN_IF_FAILED(table_of(context).linear(context, &out));
  if (!end.columns.is_split()) return Status::ok;
  return gather_rows(context, end.columns, space.slice, product.rows, DType::f32, space.projected);
}

AppendKvParams append_params(const AttentionBlockParams& params) {
  AppendKvParams append;
  static_cast<AttentionSpec&>(append) = params;
  append.qkv = params.workspace.qkv;
  append.q_norm = params.q_norm;
  append.k_norm = params.k_norm;
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
  attention.selected = params.selected;
  attention.selected_words = params.selected_words;
  attention.batch = params.batch;
  attention.kv_shape = params.kv_shape;
  attention.kv = params.kv;
  attention.output =
      params.results.is_split() ? params.workspace.at(Scratch::slice) : params.workspace.attention;
  return attention;
}

}  // namespace

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

Status finish_block(Context* context, const LinearParams& product, const BlockEnd& end,
                    const EndSpace& space) {
  const KernelTable& table = table_of(context);
  if (end.norm == nullptr) {
    if (end.columns.is_split()) return add_split_product(context, product, end, space.slice);
    LinearParams out = product;
    out.residual = end.residual;
    return table.linear(context, &out);
  }
  if (space.projected == nullptr) return Status::invalid_argument;
  QUIRE_RETURN_IF_FAILED(project_split(context, product, end, space));
  NormParams norm = norm_into(*end.norm, space.projected, product.rows, nullptr);
  norm.residual = end.residual;
  return table.norm(context, &norm);
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
  if (const ColumnSplit& results = params->results; results.is_split()) {
    const int32_t rows_per_token = result_columns(*params) / results.own();
    QUIRE_RETURN_IF_FAILED(gather_rows(context, results, attention.output, tokens * rows_per_token,
                                       table.activation_dtype, space.attention));
  }
  if (params->output == nullptr) return Status::ok;
  QUIRE_RETURN_IF_FAILED(norm_within(context, params->sub_norm, space.attention, tokens));
  return finish_block(context, product_of(params->output, space.attention, tokens),
                      {params->post_norm, space.hidden, params->outputs}, end_space(space));
}

Status composed_mlp_block(Context* context, const MlpBlockParams* params) {
  const KernelTable& table = table_of(context);
  const Workspace& space = params->workspace;
  const int32_t tokens = params->num_tokens;
  const void* input = params->input;
  QUIRE_RETURN_IF_FAILED(block_input(context, params->norm, space, tokens, input));
  QUIRE_RETURN_IF_FAILED(project(context, params->gate_up, input, tokens, space.gate_up));

  ActivationParams activation;
  static_cast<MlpSpec&>(activation) = *params;
  activation.input = space.gate_up;
  activation.rows = tokens;
  activation.output = params->activated.is_split() ? space.at(Scratch::slice) : space.activated;
  QUIRE_RETURN_IF_FAILED(table.activation(context, &activation));
  if (params->activated.is_split())
    QUIRE_RETURN_IF_FAILED(gather_rows(context, params->activated, activation.output, tokens,
                                       table.activation_dtype, space.activated));
  QUIRE_RETURN_IF_FAILED(norm_within(context, params->sub_norm, space.activated, tokens));
  return finish_block(context, product_of(params->down, space.activated, tokens),
                      {params->post_norm, space.hidden, params->outputs}, end_space(space));
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

  const ColumnSplit& vocabulary = params->vocabulary;
  LinearParams head = product_of(params->head, space.normed, rows);
  head.output_f32 = vocabulary.is_split() ? space.at(Scratch::slice) : space.logits;
  QUIRE_RETURN_IF_FAILED(table.linear(context, &head));
  if (vocabulary.is_split())
    QUIRE_RETURN_IF_FAILED(gather_rows(context, vocabulary, head.output_f32, rows, DType::f32, space.logits));
  if (space.logits == nullptr) return Status::ok;  // a shard that does not sample

  if (params->logit_scale == 1.0f && params->softcap == 0.0f) return Status::ok;
  return table.scale_logits(context, space.logits, int64_t{rows} * params->vocab_size, params->logit_scale,
                            params->softcap);
}

}  // namespace quire::kernels
