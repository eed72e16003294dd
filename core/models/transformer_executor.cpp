#include "core/models/transformer_executor.h"

#include <algorithm>

#include "core/base/checked_math.h"
#include "kernels/interface/half.h"

namespace quire {
namespace {

kernels::ContextLimits context_limits(const TransformerShape& shape,
                                      const TransformerExecutorOptions& options) {
  kernels::ContextLimits limits;
  limits.max_tokens = options.max_tokens;
  limits.max_sequences = options.max_sequences;
  limits.max_logit_rows = options.max_logit_rows;
  limits.max_pages_per_sequence = options.max_pages_per_sequence;
  const int32_t qkv_columns = (shape.heads.num_heads + 2 * shape.heads.num_kv_heads) * shape.heads.head_dim;
  limits.max_columns = std::max({shape.hidden_size, qkv_columns, 2 * shape.intermediate_size});
  limits.vocab_size = shape.vocab_size;
  limits.num_heads = shape.heads.num_heads;
  limits.head_dim = shape.heads.head_dim;
  return limits;
}

kernels::KvShape with_heads(kernels::KvShape kv, const TransformerShape& shape) {
  kv.num_kv_heads = shape.heads.num_kv_heads;
  kv.head_dim = shape.heads.head_dim;
  return kv;
}

}  // namespace

TransformerExecutor::TransformerExecutor(std::shared_ptr<const Transformer> transformer,
                                         const TransformerShape& shape, const std::shared_ptr<Device>& device,
                                         const TransformerExecutorOptions& options)
    : transformer_(std::move(transformer)),
      shape_(shape),
      options_(options),
      memory_(device, shape, with_heads(options.kv, shape), {options.max_tokens, options.max_logit_rows}),
      context_(device, context_limits(shape, options)),
      host_logits_(checked_mul<size_t>(static_cast<size_t>(options.max_logit_rows),
                                       static_cast<size_t>(shape.vocab_size), "logits")) {}

void TransformerExecutor::forward(const Batch& batch) {
  num_rows_ = batch.num_logit_rows();
  copy_pages(batch);
  const kernels::BatchView view = bind(batch);
  const KernelTable& table = context_.table();
  kernels::StepAction action = kernels::StepAction::run;
  context_.check(table.begin_step(context_.handle(), &view, &action), "beginning a step");
  if (action == kernels::StepAction::run) {
    transformer_->forward({context_, view, memory_.workspace(), memory_.kv_shape()}, memory_.kv_layers());
    context_.check(table.end_step(context_.handle()), "ending a step");
  }
  if (num_rows_ > 0) {
    context_.check(table.read_rows(context_.handle(), memory_.workspace().logits, num_rows_,
                                   shape_.vocab_size, host_logits_.data()),
                   "reading logits");
  }
  if (batch.wants_hidden) norm_all_rows(batch.num_tokens());
}

// The head has taken the rows it needed: its input is free for all of them.
void TransformerExecutor::norm_all_rows(int32_t num_tokens) {
  kernels::NormParams params = transformer_->head.norm.params();
  params.input = memory_.workspace().hidden;
  params.rows = num_tokens;
  params.output = memory_.workspace().normed;
  context_.check(context_.table().norm(context_.handle(), &params), "the last norm");
}

void TransformerExecutor::read_hidden(int32_t first_row, gsl::span<float> out) {
  const kernels::DType dtype = context_.table().activation_dtype;
  const size_t start = static_cast<size_t>(first_row) * static_cast<size_t>(shape_.hidden_size);
  const auto* const states =
      static_cast<const std::byte*>(memory_.workspace().normed) + start * kernels::dtype_bytes(dtype);
  const auto download = [&](void* host) {
    const Device& device = *context_.device();
    device.check(
        device.table().download(device.handle(), host, states, out.size() * kernels::dtype_bytes(dtype)),
        "reading states");
  };
  if (dtype == kernels::DType::f32) return download(out.data());
  std::vector<uint16_t> halves(out.size());
  download(halves.data());
  std::transform(halves.begin(), halves.end(), out.begin(), kernels::half_to_float);
}

Logits TransformerExecutor::logits() {
  context_.check(context_.table().synchronize(context_.handle()), "waiting for a step");
  const size_t count = static_cast<size_t>(num_rows_) * static_cast<size_t>(shape_.vocab_size);
  return {gsl::span<const float>(host_logits_.data(), count), shape_.vocab_size};
}

void TransformerExecutor::copy_pages(const Batch& batch) {
  for (const PageCopy& copy : batch.copies) {
    for (const kernels::KvLayer& layer : memory_.kv_layers()) {
      kernels::CopyPageParams params;
      params.kv_shape = memory_.kv_shape();
      params.kv = layer;
      params.source = copy.source.value;
      params.target = copy.target.value;
      params.num_tokens = copy.num_tokens;
      context_.check(context_.table().copy_page(context_.handle(), &params), "copying a page");
    }
  }
}

kernels::BatchView TransformerExecutor::bind(const Batch& batch) {
  kernels::BatchView host;
  host.num_tokens = batch.num_tokens();
  host.num_sequences = batch.num_sequences();
  host.num_logit_rows = batch.num_logit_rows();
  for (int32_t s = 0; s < host.num_sequences; ++s) {
    const auto index = static_cast<size_t>(s);
    host.max_query_tokens =
        std::max(host.max_query_tokens, batch.sequence_starts[index + 1] - batch.sequence_starts[index]);
    host.max_kv_tokens = std::max(host.max_kv_tokens, batch.kv_lengths[index]);
  }
  host.page_table_stride = batch.page_table_stride;
  host.token_ids = batch.token_ids.data();
  host.positions = batch.positions.data();
  host.sequence_of_token = batch.sequence_of_token.data();
  host.sequence_starts = batch.sequence_starts.data();
  host.kv_lengths = batch.kv_lengths.data();
  host.page_table = batch.page_table.data();
  host.logit_rows = batch.logit_rows.data();
  kernels::BatchView device;
  context_.check(context_.table().bind_batch(context_.handle(), &host, &device), "placing a batch");
  return device;
}

}  // namespace quire
