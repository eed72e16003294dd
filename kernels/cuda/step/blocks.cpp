// The composite entries. A norm writes its result in the row order of the matrix that reads it, and so does
// attention. Gate and up are multiplied by one kernel, and steps of single tokens append to the KV cache
// within the attention kernel. A layer of one job takes five launches (qkv with its norm, attention, o; gate
// and up with their norm, down), of more jobs seven.
#include "kernels/cuda/pointwise/pointwise.h"
#include "kernels/cuda/step/context.h"
#include "kernels/interface/composite.h"

namespace quire::kernels {
namespace {

// Attention writes single elements at their places in the row order of o. That is cheaper than a gather only
// for few tokens: for 2,048 tokens of 4,096 columns a gather takes 72 us.
constexpr int32_t kMostScattered = 256;

#define QUIRE_RETURN_IF_FAILED(expression)                               \
  do {                                                                   \
    const Status status_of_expression = (expression);                    \
    if (status_of_expression != Status::ok) return status_of_expression; \
  } while (false)

// Computes norm(input) times a matrix. The matrix kernel normalises a single row itself. For more rows a
// separate kernel writes the norm, in the row order of the matrix if it can, and arranged if the matrix reads
// it so.
Status multiply_norm(Context& c, const NormParams& norm, const LinearParams& product, void* normed,
                     ProductForm form) {
  const Weight& weight = *product.weight;
  if (fuses_norm(c, weight, norm)) return multiply_normed(c, norm, product, form);
  NormParams n = norm;
  form.in_row_order = takes_row_order(weight);
  form.arranged = takes_arranged(c, weight, norm.rows) && norm_arranges(norm, c.device->shared_per_block);
  n.output = form.arranged ? c.gathered : normed;
  const auto launch = form.arranged ? launch_norm_arranged : launch_norm;
  QUIRE_RETURN_IF_FAILED(
      c.device->check(launch(n, form.in_row_order ? row_place(weight) : nullptr, c.launch()), "normalising"));
  LinearParams p = product;
  p.input = n.output;
  return multiply(c, p, form);
}

NormParams norm_of(const NormParams& norm, const float* input, int32_t rows) {
  NormParams p = norm;
  p.input = input;
  p.rows = rows;
  return p;
}

// Multiplies the input of a block with its first matrix: rows that are normalised already, or norm(hidden).
Status begin_block(Context& c, const NormParams& norm, const void* input, const Workspace& space,
                   const LinearParams& product, const ProductForm& form) {
  if (input == nullptr)
    return multiply_norm(c, norm_of(norm, space.hidden, product.rows), product, space.normed, form);
  LinearParams p = product;
  p.input = input;
  return multiply(c, p, form);
}

// Computes residual += norm(input W), or residual += input W.
Status end_block(Context& c, const LinearParams& product, const ProductForm& form, const BlockEnd& end,
                 float* projected) {
  LinearParams p = product;
  if (end.norm == nullptr) {
    p.residual = end.residual;
    return multiply(c, p, form);
  }
  if (projected == nullptr)
    return c.device->fail(Status::invalid_argument,
                          "a block that ends with a norm needs the scratch buffer `projected`");
  p.output_f32 = projected;
  QUIRE_RETURN_IF_FAILED(multiply(c, p, form));
  NormParams n = norm_of(*end.norm, projected, p.rows);
  n.residual = end.residual;
  return c.device->check(launch_norm(n, nullptr, c.launch()), "normalising");
}

LinearParams product_of(const Weight& weight, const void* input, int32_t rows) {
  LinearParams p;
  p.weight = &weight;
  p.input = input;
  p.rows = rows;
  return p;
}

// Normalises the input of a block's last matrix in place.
Status norm_within(Context& c, const NormParams* norm, void* input, int32_t rows) {
  if (norm == nullptr) return Status::ok;
  NormParams n = *norm;
  n.rows = rows;
  return c.device->check(launch_norm_activations(n, static_cast<__half*>(input), c.launch()),
                         "normalising within a block");
}

// Returns memory for the arranged input of down, which broad tiles of gate and up write; it comes after the
// input of these. Returns nullptr if the input is not arranged.
__half* room_for_down(const Context& c, const MlpBlockParams& p, int32_t tokens) {
  if (!takes_arranged(c, *p.gate_up, tokens) || !takes_arranged(c, *p.down, tokens)) return nullptr;
  const size_t before = arranged_elements(tokens, p.gate_up->num_rows);
  return before + arranged_elements(tokens, p.down->num_rows) <= c.gathered_elements ? c.gathered + before
                                                                                     : nullptr;
}

AppendKvParams append_params(const AttentionBlockParams& p) {
  AppendKvParams out;
  static_cast<AttentionSpec&>(out) = p;
  out.qkv = p.workspace.qkv;
  out.q_norm = p.q_norm;
  out.k_norm = p.k_norm;
  out.cos = p.workspace.rope_cos;
  out.sin = p.workspace.rope_sin;
  out.batch = p.batch;
  out.kv_shape = p.kv_shape;
  out.kv = p.kv;
  return out;
}

AttentionParams attention_params(const AttentionBlockParams& p) {
  AttentionParams out;
  static_cast<AttentionSpec&>(out) = p;
  out.qkv = p.workspace.qkv;
  out.sinks = p.sinks;
  out.selected = p.selected;
  out.selected_words = p.selected_words;
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
  if (params->qkv != nullptr) {
    LinearParams qkv;
    qkv.weight = params->qkv;
    qkv.rows = tokens;
    qkv.output = space.qkv;
    QUIRE_RETURN_IF_FAILED(begin_block(c, params->norm, params->input, space, qkv, {}));
  }
  const AppendKvParams append = append_params(*params);
  const AttentionParams attention = attention_params(*params);
  const bool fused = fuses_append(c, attention);
  if (!fused) QUIRE_RETURN_IF_FAILED(append_kv(context, &append));
  const bool ordered = params->output != nullptr && params->sub_norm == nullptr &&
                       takes_row_order(*params->output) && tokens <= kMostScattered &&
                       !takes_attention_any(attention);
  QUIRE_RETURN_IF_FAILED(
      attend(c, attention, fused ? &append : nullptr, ordered ? row_place(*params->output) : nullptr));
  if (params->output == nullptr) return Status::ok;
  QUIRE_RETURN_IF_FAILED(norm_within(c, params->sub_norm, space.attention, tokens));
  return end_block(c, product_of(*params->output, space.attention, tokens), {.in_row_order = ordered},
                   {params->post_norm, space.hidden}, space.at(Scratch::projected));
}

Status mlp_block(Context* context, const MlpBlockParams* params) {
  Context& c = *context;
  const Workspace& space = params->workspace;
  const int32_t tokens = params->num_tokens;
  if (tokens <= 0) return Status::ok;
  LinearParams gate_up;
  gate_up.weight = params->gate_up;
  gate_up.rows = tokens;
  const Weight& weight = *params->gate_up;
  const bool fused = params->gated && mechanisms_of(static_cast<const MlpSpec&>(*params)) == 0 &&
                     weight.groups.size() == 1 && weight.groups.front().matrix.paired != 0 &&
                     !uses_library(c, tokens);
  // The loader stores the columns of gate and up in down's row order if it can; otherwise the input of down
  // is gathered.
  const bool ordered = takes_row_order(*params->down) && params->down->groups.front().row_order.empty();
  __half* const arranged =
      fused && ordered && params->sub_norm == nullptr ? room_for_down(c, *params, tokens) : nullptr;
  void* const activated = arranged != nullptr ? arranged : space.activated;
  if (fused) {
    gate_up.output = activated;
    QUIRE_RETURN_IF_FAILED(begin_block(
        c, params->norm, params->input, space, gate_up,
        {.arranges = arranged != nullptr, .activation = static_cast<int32_t>(params->activation)}));
  } else {
    gate_up.output = space.gate_up;
    QUIRE_RETURN_IF_FAILED(begin_block(c, params->norm, params->input, space, gate_up, {}));
    ActivationParams act;
    static_cast<MlpSpec&>(act) = *params;
    act.input = space.gate_up;
    act.rows = tokens;
    act.output = activated;
    QUIRE_RETURN_IF_FAILED(activation(context, &act));
  }
  QUIRE_RETURN_IF_FAILED(norm_within(c, params->sub_norm, activated, tokens));
  return end_block(c, product_of(*params->down, activated, tokens),
                   {.in_row_order = ordered, .arranged = arranged != nullptr},
                   {params->post_norm, space.hidden}, space.at(Scratch::projected));
}

Status head(Context* context, const HeadParams* params) {
  Context& c = *context;
  const Workspace& space = params->workspace;
  const int32_t rows = params->batch.num_logit_rows;
  if (rows <= 0) return Status::ok;
  LinearParams p;
  p.weight = params->head;
  p.rows = rows;
  p.output_f32 = space.logits;
  NormParams norm = norm_of(params->norm, space.hidden, rows);
  norm.row_index = params->batch.logit_rows;
  QUIRE_RETURN_IF_FAILED(multiply_norm(c, norm, p, space.normed, {}));
  if (params->logit_scale == 1.0f && params->softcap == 0.0f) return Status::ok;
  return scale_logits(context, space.logits, int64_t{rows} * params->vocab_size, params->logit_scale,
                      params->softcap);
}

}  // namespace quire::kernels
