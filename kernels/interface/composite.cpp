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

// What a block reads: rows that are normalised already, or norm(hidden).
Status block_input(Context* context, const NormParams& norm, const Workspace& space, int32_t tokens,
                   const void*& input) {
  if (input != nullptr) return Status::ok;
  const NormParams params = norm_into(norm, space.hidden, tokens, space.normed);
  input = space.normed;
  return table_of(context).norm(context, &params);
}

Status project(Context* context, const Weight* weight, const void* input, int32_t rows, void* output) {
  LinearParams params;
  params.weight = weight;
  params.input = input;
  params.rows = rows;
  params.output = output;
  return table_of(context).linear(context, &params);
}

// The norm of what the last matrix of a block reads, in place.
Status norm_within(Context* context, const NormParams* norm, void* rows, int32_t tokens) {
  if (norm == nullptr) return Status::ok;
  const KernelTable& table = table_of(context);
  if (table.activation_dtype != DType::f32) return Status::unsupported;
  const NormParams params = norm_into(*norm, static_cast<const float*>(rows), tokens, rows);
  return table.norm(context, &params);
}

Status finish(Context* context, const Weight* matrix, const void* input, int32_t tokens,
              const NormParams* post_norm, const Workspace& space) {
  LinearParams product;
  product.weight = matrix;
  product.input = input;
  product.rows = tokens;
  return finish_block(context, product, {post_norm, space.hidden}, space.at(Scratch::projected));
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
  attention.output = params.workspace.attention;
  return attention;
}

}  // namespace

Status finish_block(Context* context, const LinearParams& product, const BlockEnd& end, float* projected) {
  const KernelTable& table = table_of(context);
  LinearParams out = product;
  if (end.norm == nullptr) {
    out.residual = end.residual;
    return table.linear(context, &out);
  }
  if (projected == nullptr) return Status::invalid_argument;
  out.output_f32 = projected;
  QUIRE_RETURN_IF_FAILED(table.linear(context, &out));
  NormParams norm = norm_into(*end.norm, projected, product.rows, nullptr);
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
  if (params->output == nullptr) return Status::ok;
  QUIRE_RETURN_IF_FAILED(norm_within(context, params->sub_norm, space.attention, tokens));
  return finish(context, params->output, space.attention, tokens, params->post_norm, space);
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
  activation.output = space.activated;
  QUIRE_RETURN_IF_FAILED(table.activation(context, &activation));
  QUIRE_RETURN_IF_FAILED(norm_within(context, params->sub_norm, space.activated, tokens));
  return finish(context, params->down, space.activated, tokens, params->post_norm, space);
}

Status composed_head(Context* context, const HeadParams* params) {
  const KernelTable& table = table_of(context);
  const Workspace& space = params->workspace;
  const int32_t rows = params->batch.num_logit_rows;
  if (rows == 0) return Status::ok;

  NormParams norm = norm_into(params->norm, space.hidden, rows, space.normed);
  norm.row_index = params->batch.logit_rows;
  QUIRE_RETURN_IF_FAILED(table.norm(context, &norm));

  LinearParams head;
  head.weight = params->head;
  head.input = space.normed;
  head.rows = rows;
  head.output_f32 = space.logits;
  QUIRE_RETURN_IF_FAILED(table.linear(context, &head));

  if (params->logit_scale == 1.0f && params->softcap == 0.0f) return Status::ok;
  return table.scale_logits(context, space.logits, int64_t{rows} * params->vocab_size, params->logit_scale,
                            params->softcap);
}

}  // namespace quire::kernels
