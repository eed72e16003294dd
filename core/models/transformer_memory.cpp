#include "core/models/transformer_memory.h"

#include <fmt/core.h>

#include "core/base/checked_math.h"

namespace quire {
namespace {

// The activation buffers of one step, in bytes.
struct WorkspaceBytes {
  uint64_t hidden, normed, qkv, attention, gate_up, activated, rope, logits;
  // Each a piece of its own.
  uint64_t taken(const KernelTable& table) const {
    uint64_t total = 0;
    for (const uint64_t bytes : {hidden, normed, qkv, attention, gate_up, activated, rope, rope, logits})
      total += table.taken_bytes(bytes);
    return total;
  }
};

WorkspaceBytes workspace_bytes(const TransformerShape& shape, const StepLimits& limits,
                               kernels::DType activation_dtype) {
  const auto size = [](std::initializer_list<uint64_t> factors) {
    uint64_t bytes = 1;
    for (const uint64_t factor : factors) bytes = checked_mul<uint64_t>(bytes, factor, "activation buffers");
    return bytes;
  };
  const uint64_t tokens = static_cast<uint64_t>(limits.max_tokens);
  const uint64_t rows = static_cast<uint64_t>(limits.max_logit_rows);
  const uint64_t element = kernels::dtype_bytes(activation_dtype);
  const uint64_t hidden = static_cast<uint64_t>(shape.hidden_size);
  const uint64_t head_dim = static_cast<uint64_t>(shape.heads.head_dim);
  const uint64_t heads = static_cast<uint64_t>(shape.heads.num_heads);
  const uint64_t kv_heads = static_cast<uint64_t>(shape.heads.num_kv_heads);
  const uint64_t intermediate = static_cast<uint64_t>(shape.intermediate_size);
  WorkspaceBytes out{};
  out.hidden = size({tokens, hidden, sizeof(float)});
  out.normed = size({std::max(tokens, rows), hidden, element});
  out.qkv = size({tokens, heads + 2 * kv_heads, head_dim, element});
  out.attention = size({tokens, heads, head_dim, element});
  out.gate_up = size({tokens, 2, intermediate, element});
  out.activated = size({tokens, intermediate, element});
  out.rope = size({tokens, static_cast<uint64_t>(shape.rotary_dim) / 2, sizeof(float)});
  out.logits = size({rows, static_cast<uint64_t>(shape.vocab_size), sizeof(float)});
  return out;
}

uint64_t kv_bytes_per_layer(const KernelTable& table, const kernels::KvShape& kv) {
  uint64_t total = 0;
  for (const kernels::KvFormat format : {kv.key_format, kv.value_format})
    total += table.taken_bytes(kernels::kv_data_bytes(kv, format)) +
             table.taken_bytes(kernels::kv_scale_bytes(kv, format));
  return total;
}

}  // namespace

TransformerMemoryPlan plan_transformer_memory(const KernelTable& table, const TransformerShape& shape,
                                              const kernels::KvShape& kv, const StepLimits& limits) {
  TransformerMemoryPlan plan;
  plan.kv_bytes = checked_mul<uint64_t>(static_cast<uint64_t>(shape.num_layers),
                                        kv_bytes_per_layer(table, kv), "KV cache");
  plan.activation_bytes = workspace_bytes(shape, limits, table.activation_dtype).taken(table);
  return plan;
}

template <typename T>
T* TransformerMemory::take(const std::shared_ptr<Device>& device, uint64_t bytes, std::string_view what) {
  if (bytes == 0) return nullptr;
  buffers_.emplace_back(device, bytes, fmt::format("allocating {} ({} bytes)", what, bytes));
  return buffers_.back().as<T>();
}

TransformerMemory::TransformerMemory(const std::shared_ptr<Device>& device, const TransformerShape& shape,
                                     const kernels::KvShape& kv, const StepLimits& limits)
    : kv_shape_(kv) {
  const WorkspaceBytes bytes = workspace_bytes(shape, limits, device->table().activation_dtype);
  workspace_.hidden = take<float>(device, bytes.hidden, "the residual stream");
  workspace_.normed = take<void>(device, bytes.normed, "normalised activations");
  workspace_.qkv = take<void>(device, bytes.qkv, "queries, keys and values");
  workspace_.attention = take<void>(device, bytes.attention, "attention output");
  workspace_.gate_up = take<void>(device, bytes.gate_up, "feed-forward activations");
  workspace_.activated = take<void>(device, bytes.activated, "feed-forward activations");
  workspace_.rope_cos = take<float>(device, bytes.rope, "rotary angles");
  workspace_.rope_sin = take<float>(device, bytes.rope, "rotary angles");
  workspace_.logits = take<float>(device, bytes.logits, "logits");
  for (int32_t layer = 0; layer < shape.num_layers; ++layer) {
    kernels::KvLayer pages;
    pages.keys = take<void>(device, kernels::kv_data_bytes(kv, kv.key_format), "the KV cache");
    pages.values = take<void>(device, kernels::kv_data_bytes(kv, kv.value_format), "the KV cache");
    pages.key_scales = take<void>(device, kernels::kv_scale_bytes(kv, kv.key_format), "KV cache scales");
    pages.value_scales = take<void>(device, kernels::kv_scale_bytes(kv, kv.value_format), "KV cache scales");
    kv_layers_.push_back(pages);
  }
}

}  // namespace quire
