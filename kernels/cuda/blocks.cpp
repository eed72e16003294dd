// The composite entries. A norm writes its result in the row order of the matrix that reads it, attention
// likewise, and gate and up meet in the matrix kernel, so that a layer is seven launches: norm, qkv, append,
// attention, o; norm, gate/up; down makes eight.
#include "kernels/cuda/context.h"
#include "kernels/cuda/pointwise.h"
#include "kernels/interface/composite.h"

namespace quire::kernels {
namespace {

#define QUIRE_RETURN_IF_FAILED(expression)                               \
  do {                                                                   \
    const Status status_of_expression = (expression);                    \
    if (status_of_expression != Status::ok) return status_of_expression; \
  } while (false)

// norm(input) as `weight` wants to read it. Sets in_row_order.
Status norm_for(Context& c, const NormParams& norm, const float* input, const int32_t* row_index,
                int32_t rows, const Weight& weight, void* output, bool& in_row_order) {
  NormParams p = norm;
  p.input = input;
  p.row_index = row_index;
  p.rows = rows;
  p.output = output;
  in_row_order = takes_row_order(weight);
  return c.device->check(launch_norm(p, in_row_order ? row_place(weight) : nullptr, c.launch()),
                         "normalising");
}

// hidden += post_norm(input W), or hidden += input W.
Status add_product(Context& c, const Weight& weight, const void* input, bool in_row_order, int32_t rows,
                   const NormParams* post_norm, const Workspace& space) {
  LinearParams p;
  p.weight = &weight;
  p.input = input;
  p.rows = rows;
  if (post_norm == nullptr) {
    p.residual = space.hidden;
    return multiply(c, p, in_row_order, -1);
  }
  // The product waits as f32 where gathered activations would be; the weight then must not need that place.
  const size_t elements = static_cast<size_t>(rows) * static_cast<size_t>(weight.num_columns);
  if (!in_row_order || elements * 2 > c.gathered_elements)
    return c.device->fail(Status::unsupported, "a norm after a block of this shape");
  auto* result = reinterpret_cast<float*>(c.gathered);
  p.output_f32 = result;
  QUIRE_RETURN_IF_FAILED(multiply(c, p, true, -1));
  NormParams n = *post_norm;
  n.input = result;
  n.rows = rows;
  n.columns = weight.num_columns;
  n.output = space.normed;
  QUIRE_RETURN_IF_FAILED(c.device->check(launch_norm(n, nullptr, c.launch()), "normalising"));
  return c.device->check(launch_add_rows(static_cast<const __half*>(space.normed), rows, weight.num_columns,
                                         space.hidden, c.launch()),
                         "adding to the residual stream");
}

AppendKvParams append_params(const AttentionBlockParams& p) {
  AppendKvParams out;
  out.heads = p.heads;
  out.qkv = p.workspace.qkv;
  out.q_norm = p.q_norm;
  out.k_norm = p.k_norm;
  out.norm_epsilon = p.qk_norm_epsilon;
  out.rope = p.rope;
  out.rotary_dim = p.rotary_dim;
  out.cos = p.workspace.rope_cos;
  out.sin = p.workspace.rope_sin;
  out.batch = p.batch;
  out.kv_shape = p.kv_shape;
  out.kv = p.kv;
  return out;
}

AttentionParams attention_params(const AttentionBlockParams& p) {
  AttentionParams out;
  out.heads = p.heads;
  out.qkv = p.workspace.qkv;
  out.scale = p.scale;
  out.softcap = p.softcap;
  out.sliding_window = p.sliding_window;
  out.batch = p.batch;
  out.kv_shape = p.kv_shape;
  out.kv = p.kv;
  out.output = p.workspace.attention;
  return out;
}

}  // namespace

Status attention_block(Context* context, const AttentionBlockParams* params) {
  Context& c = *context;
  const Workspace& space = params->workspace;
  const int32_t tokens = params->batch.num_tokens;
  if (tokens <= 0) return Status::ok;
  bool in_row_order = false;
  QUIRE_RETURN_IF_FAILED(
      norm_for(c, params->norm, space.hidden, nullptr, tokens, *params->qkv, space.normed, in_row_order));
  LinearParams qkv;
  qkv.weight = params->qkv;
  qkv.input = space.normed;
  qkv.rows = tokens;
  qkv.output = space.qkv;
  QUIRE_RETURN_IF_FAILED(multiply(c, qkv, in_row_order, -1));
  const AppendKvParams append = append_params(*params);
  QUIRE_RETURN_IF_FAILED(append_kv(context, &append));
  const bool ordered = takes_row_order(*params->output);
  QUIRE_RETURN_IF_FAILED(
      attend(c, attention_params(*params), ordered ? row_place(*params->output) : nullptr));
  return add_product(c, *params->output, space.attention, ordered, tokens, params->post_norm, space);
}

Status mlp_block(Context* context, const MlpBlockParams* params) {
  Context& c = *context;
  const Workspace& space = params->workspace;
  const int32_t tokens = params->num_tokens;
  if (tokens <= 0) return Status::ok;
  bool in_row_order = false;
  QUIRE_RETURN_IF_FAILED(
      norm_for(c, params->norm, space.hidden, nullptr, tokens, *params->gate_up, space.normed, in_row_order));
  LinearParams gate_up;
  gate_up.weight = params->gate_up;
  gate_up.input = space.normed;
  gate_up.rows = tokens;
  const Weight& weight = *params->gate_up;
  const bool fused = params->gated && weight.groups.size() == 1 && weight.groups.front().matrix.paired != 0 &&
                     !uses_library(c, tokens);
  if (fused) {
    gate_up.output = space.activated;
    QUIRE_RETURN_IF_FAILED(multiply(c, gate_up, in_row_order, static_cast<int32_t>(params->activation)));
  } else {
    gate_up.output = space.gate_up;
    QUIRE_RETURN_IF_FAILED(multiply(c, gate_up, in_row_order, -1));
    ActivationParams act;
    act.kind = params->activation;
    act.gated = params->gated;
    act.input = space.gate_up;
    act.rows = tokens;
    act.columns = params->intermediate;
    act.output = space.activated;
    QUIRE_RETURN_IF_FAILED(activation(context, &act));
  }
  // The loader lays the columns of gate and up in down's row order where it can; what is left is gathered.
  const bool ordered = takes_row_order(*params->down) && params->down->groups.front().row_order.empty();
  return add_product(c, *params->down, space.activated, ordered, tokens, params->post_norm, space);
}

Status head(Context* context, const HeadParams* params) {
  Context& c = *context;
  const Workspace& space = params->workspace;
  const int32_t rows = params->batch.num_logit_rows;
  if (rows <= 0) return Status::ok;
  bool in_row_order = false;
  QUIRE_RETURN_IF_FAILED(norm_for(c, params->norm, space.hidden, params->batch.logit_rows, rows,
                                  *params->head, space.normed, in_row_order));
  LinearParams p;
  p.weight = params->head;
  p.input = space.normed;
  p.rows = rows;
  p.output_f32 = space.logits;
  QUIRE_RETURN_IF_FAILED(multiply(c, p, in_row_order, -1));
  if (params->logit_scale == 1.0f && params->softcap == 0.0f) return Status::ok;
  return scale_logits(context, space.logits, int64_t{rows} * params->vocab_size, params->logit_scale,
                      params->softcap);
}

}  // namespace quire::kernels
