// The composite entries. A norm writes its result in the row order of the matrix that reads it, and so does
// attention. Gate and up are multiplied by one kernel, and steps of single tokens append to the KV cache
// within the attention kernel. A layer of one job takes five launches (qkv with its norm, attention, o; gate
// and up with their norm, down), of more jobs seven.
#include "kernels/cuda/collective/communicator.h"
#include "kernels/cuda/pointwise/pointwise.h"
#include "kernels/cuda/step/context.h"
#include "kernels/interface/composite.h"

namespace quire::kernels {
namespace {

// Attention writes single elements at their places in the row order of o. That is cheaper than a gather only
// for few tokens: for 2,048 tokens of 4,096 columns a gather takes 72 us.
constexpr int32_t kMaxScattered = 256;

// Computes norm(input) times a matrix. The matrix kernel normalises a single row itself, unless the kernel
// that gathers the row from shards does. For more rows a separate kernel writes the norm, in the row order of
// the matrix if it can, and arranged if the matrix reads it so.
Status multiply_norm(Context& c, const NormParams& norm, const LinearParams& product, void* normed,
                     ProductForm form) {
  const Weight& weight = *product.weight;
  const bool gathers = gathers_within(c, norm) && !rounds_norm(weight);
  if (!gathers) QUIRE_RETURN_IF_FAILED(run_delayed_gather(c));
  if (!gathers && fuses_norm(c, weight, norm)) return multiply_normed(c, norm, product, form);
  NormParams n = norm;
  form.in_row_order = supports_row_order(weight);
  form.arranged =
      !gathers && reads_arranged(c, weight, norm.rows) && norm_arranges(norm, c.device->shared_per_block);
  n.output = form.arranged ? c.gathered : normed;
  const int32_t* const place = form.in_row_order ? row_place(weight) : nullptr;
  QUIRE_RETURN_IF_FAILED(form.arranged
                             ? c.device->check(launch_norm_arranged(n, place, c.launch()), "normalising")
                             : normalize(c, n, place));
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
  QUIRE_RETURN_IF_FAILED(run_delayed_gather(c));
  LinearParams p = product;
  p.input = input;
  return multiply(c, p, form);
}

// Runs the last product of a block; `form` is a ProductForm.
Status multiply_in_form(Context* context, const LinearParams& params, const void* form) {
  return multiply(*context, params, *static_cast<const ProductForm*>(form));
}

// Ends a block. `form` describes how the input of the product lies.
Status end_block(Context& c, const LinearParams& product, const ProductForm& form, const BlockEnd& end,
                 const Workspace& space) {
  return finish_block(&c, {.params = product, .multiply = multiply_in_form, .form = &form}, end,
                      end_space(space));
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
__half* memory_for_down(const Context& c, const MlpBlockParams& p, int32_t tokens) {
  if (!reads_arranged(c, *p.gate_up, tokens) || !reads_arranged(c, *p.down, tokens)) return nullptr;
  const size_t before = arranged_elements(tokens, p.gate_up->num_rows);
  return before + arranged_elements(tokens, p.down->num_rows) <= c.gathered_elements ? c.gathered + before
                                                                                     : nullptr;
}

// True if the kernel of gate and up also activates.
bool fuses_activation(const Context& c, const MlpBlockParams& p) {
  const Weight& weight = *p.gate_up;
  if (!p.gated || mechanisms_of(static_cast<const MlpSpec&>(p)) != 0 || weight.groups.size() != 1)
    return false;
  const Matrix& m = weight.groups.front().matrix;
  return m.paired != 0 && (m.kind == TileKind::trellis || !uses_library(c, p.num_tokens));
}

}  // namespace

Status attention_block(Context* context, const AttentionBlockParams* params) {
  Context& c = *context;
  const Workspace& space = params->workspace;
  const int32_t tokens = params->batch.num_tokens;
  if (tokens <= 0) return Status::ok;
  if (params->qkv != nullptr) {
    LinearParams qkv = product_of(params->qkv, nullptr, tokens);
    qkv.output = space.qkv;
    QUIRE_RETURN_IF_FAILED(begin_block(c, params->norm, params->input, space, qkv, {}));
  }
  QUIRE_RETURN_IF_FAILED(run_delayed_gather(c));
  const AppendKvParams append = append_params(*params);
  const AttentionParams attention = attention_params(*params);
  const bool fused = fuses_append(c, attention);
  if (!fused) QUIRE_RETURN_IF_FAILED(append_kv(context, &append));
  // The results of a shard are in the order of heads until they are gathered.
  const bool is_split = params->results.is_split();
  const bool ordered = params->output != nullptr && params->sub_norm == nullptr &&
                       supports_row_order(*params->output) && tokens <= kMaxScattered &&
                       (is_split ? gathered_rows(*params) == 1 : !uses_attention_any(attention, *c.device));
  const int32_t* const place = ordered ? row_place(*params->output) : nullptr;
  QUIRE_RETURN_IF_FAILED(attend(c, attention, fused ? &append : nullptr, is_split ? nullptr : place));
  QUIRE_RETURN_IF_FAILED(gather_results(context, *params, place));
  if (params->output == nullptr) return Status::ok;
  QUIRE_RETURN_IF_FAILED(norm_within(c, params->sub_norm, space.attention, tokens));
  return end_block(c, product_of(params->output, space.attention, tokens), {.in_row_order = ordered},
                   {params->post_norm, space.hidden, params->outputs}, space);
}

Status mlp_block(Context* context, const MlpBlockParams* params) {
  Context& c = *context;
  const Workspace& space = params->workspace;
  const int32_t tokens = params->num_tokens;
  if (tokens <= 0) return Status::ok;
  ActivationParams act = activation_params(*params);
  // The loader stores the columns of gate and up in down's row order if it can; otherwise the input of down
  // is gathered.
  const bool ordered = supports_row_order(*params->down) && params->down->groups.front().row_order.empty();
  const bool fused = fuses_activation(c, *params);
  const bool is_split = params->activated.is_split();
  __half* const arranged = fused && ordered && params->sub_norm == nullptr && !is_split
                               ? memory_for_down(c, *params, tokens)
                               : nullptr;
  if (arranged != nullptr) act.output = arranged;
  LinearParams gate_up = product_of(params->gate_up, nullptr, tokens);
  gate_up.output = fused ? act.output : space.gate_up;
  ProductForm form;
  form.arranges = arranged != nullptr;
  if (fused) form.activation = static_cast<int32_t>(params->activation);
  QUIRE_RETURN_IF_FAILED(begin_block(c, params->norm, params->input, space, gate_up, form));
  if (!fused) QUIRE_RETURN_IF_FAILED(activation(context, &act));
  QUIRE_RETURN_IF_FAILED(gather_activated(context, *params));
  void* const activated = is_split ? space.activated : act.output;
  QUIRE_RETURN_IF_FAILED(norm_within(c, params->sub_norm, activated, tokens));
  return end_block(c, product_of(params->down, activated, tokens),
                   {.in_row_order = ordered, .arranged = arranged != nullptr},
                   {params->post_norm, space.hidden, params->outputs}, space);
}

Status head(Context* context, const HeadParams* params) {
  Context& c = *context;
  const Workspace& space = params->workspace;
  const int32_t rows = params->batch.num_logit_rows;
  if (rows <= 0) return Status::ok;
  LinearParams p = product_of(params->head, nullptr, rows);
  p.output_f32 = params->vocabulary.is_split() ? space.at(Scratch::slice) : space.logits;
  NormParams norm = norm_of(params->norm, space.hidden, rows);
  norm.row_index = params->batch.logit_rows;
  QUIRE_RETURN_IF_FAILED(multiply_norm(c, norm, p, space.normed, {}));
  return finish_head(context, *params, p.output_f32);
}

}  // namespace quire::kernels
