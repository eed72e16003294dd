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

// hidden += matrix(input), or hidden += post_norm(matrix(input)).
Status project_into_hidden(Context* context, const Weight* matrix, const void* input, int32_t tokens,
                           const NormParams* post_norm, const Workspace& space) {
  const KernelTable& table = table_of(context);
  LinearParams project;
  project.weight = matrix;
  project.input = input;
  project.rows = tokens;
  if (post_norm == nullptr) {
    project.residual = space.hidden;
    return table.linear(context, &project);
  }
  if (space.projected == nullptr) return Status::invalid_argument;
  project.output_f32 = space.projected;
  QUIRE_RETURN_IF_FAILED(table.linear(context, &project));
  NormParams norm = norm_into(*post_norm, space.projected, tokens, nullptr);
  norm.residual = space.hidden;
  return table.norm(context, &norm);
}

}  // namespace

Status composed_attention_block(Context* context, const AttentionBlockParams* params) {
  const KernelTable& table = table_of(context);
  const Workspace& space = params->workspace;
  const int32_t tokens = params->batch.num_tokens;

  const NormParams norm = norm_into(params->norm, space.hidden, tokens, space.normed);
  QUIRE_RETURN_IF_FAILED(table.norm(context, &norm));

  LinearParams project_in;
  project_in.weight = params->qkv;
  project_in.input = space.normed;
  project_in.rows = tokens;
  project_in.output = space.qkv;
  QUIRE_RETURN_IF_FAILED(table.linear(context, &project_in));

  AppendKvParams append;
  append.heads = params->heads;
  append.qkv = space.qkv;
  append.q_norm = params->q_norm;
  append.k_norm = params->k_norm;
  append.norm_epsilon = params->qk_norm_epsilon;
  append.rope = params->rope;
  append.rotary_dim = params->rotary_dim;
  append.cos = space.rope_cos;
  append.sin = space.rope_sin;
  append.batch = params->batch;
  append.kv_shape = params->kv_shape;
  append.kv = params->kv;
  QUIRE_RETURN_IF_FAILED(table.append_kv(context, &append));

  AttentionParams attention;
  attention.heads = params->heads;
  attention.qkv = space.qkv;
  attention.scale = params->scale;
  attention.softcap = params->softcap;
  attention.sliding_window = params->sliding_window;
  attention.batch = params->batch;
  attention.kv_shape = params->kv_shape;
  attention.kv = params->kv;
  attention.output = space.attention;
  QUIRE_RETURN_IF_FAILED(table.attention(context, &attention));

  return project_into_hidden(context, params->output, space.attention, tokens, params->post_norm, space);
}

Status composed_mlp_block(Context* context, const MlpBlockParams* params) {
  const KernelTable& table = table_of(context);
  const Workspace& space = params->workspace;

  const NormParams norm = norm_into(params->norm, space.hidden, params->num_tokens, space.normed);
  QUIRE_RETURN_IF_FAILED(table.norm(context, &norm));

  LinearParams gate_up;
  gate_up.weight = params->gate_up;
  gate_up.input = space.normed;
  gate_up.rows = params->num_tokens;
  gate_up.output = space.gate_up;
  QUIRE_RETURN_IF_FAILED(table.linear(context, &gate_up));

  ActivationParams activation;
  activation.kind = params->activation;
  activation.gated = params->gated;
  activation.input = space.gate_up;
  activation.rows = params->num_tokens;
  activation.columns = params->intermediate;
  activation.output = space.activated;
  QUIRE_RETURN_IF_FAILED(table.activation(context, &activation));

  return project_into_hidden(context, params->down, space.activated, params->num_tokens, params->post_norm,
                             space);
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
