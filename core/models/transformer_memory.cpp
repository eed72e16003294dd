#include "core/models/transformer_memory.h"

#include <algorithm>
#include <numeric>

#include <fmt/core.h>

#include "core/base/checked_math.h"

namespace quire {
namespace {

// Bytes of the activation buffers of one step.
struct WorkspaceBytes {
  uint64_t hidden, normed, qkv, attention, gate_up, activated, logits;
  std::vector<uint64_t> ropes;  // bytes of the cosines of each kind of RoPE; the sines take as many
  std::array<uint64_t, kernels::kNumScratch> scratch;

  // Returns the device memory of all buffers. Each is a separate allocation.
  uint64_t taken(const KernelTable& table) const {
    uint64_t total = 0;
    const auto add = [&](uint64_t bytes) { total += bytes == 0 ? 0 : table.taken_bytes(bytes); };
    for (const uint64_t bytes : {hidden, normed, qkv, attention, gate_up, activated, logits}) add(bytes);
    for (const uint64_t bytes : ropes) {
      add(bytes);
      add(bytes);
    }
    for (const uint64_t bytes : scratch) add(bytes);
    return total;
  }
};

WorkspaceBytes workspace_bytes(const TransformerShape& shape, const StepLimits& limits,
                               kernels::DType activation_dtype) {
  const auto size = [](int32_t rows, int32_t columns, size_t element) {
    const auto elements = checked_mul<uint64_t>(static_cast<uint64_t>(rows), static_cast<uint64_t>(columns),
                                                "activation buffers");
    return checked_mul<uint64_t>(elements, element, "activation buffers");
  };
  const int32_t tokens = limits.max_tokens;
  const size_t element = kernels::dtype_bytes(activation_dtype);
  WorkspaceBytes out{};
  out.hidden = size(tokens, shape.hidden_size, sizeof(float));
  out.normed = size(std::max(tokens, limits.max_logit_rows), shape.hidden_size, element);
  out.qkv = size(tokens, shape.columns.qkv, element);
  out.attention = size(tokens, shape.columns.attention, element);
  out.gate_up = size(tokens, shape.columns.gate_up, element);
  out.activated = size(tokens, shape.columns.activated, element);
  out.logits = size(limits.max_logit_rows, shape.columns.logits, sizeof(float));
  for (const int32_t dim : shape.rotary_dims) out.ropes.push_back(size(tokens, dim / 2, sizeof(float)));
  for (size_t i = 0; i < kernels::kNumScratch; ++i)
    out.scratch[i] = size(tokens, shape.columns.scratch[i], sizeof(float));
  if (activation_dtype == kernels::DType::f32)
    out.scratch[static_cast<size_t>(kernels::Scratch::rounded)] = 0;
  uint64_t& slice = out.scratch[static_cast<size_t>(kernels::Scratch::slice)];
  slice = std::max(slice, size(limits.max_logit_rows, shape.columns.own_logits, sizeof(float)));
  if (shape.columns.selects_keys) {
    out.scratch[static_cast<size_t>(kernels::Scratch::selected)] =
        size(tokens, (limits.max_context + 31) / 32, sizeof(uint32_t));
  }
  return out;
}

kernels::KvShape shape_of(const LayerCacheSize& size, const CachePages& kv) {
  kernels::KvShape shape = kv;
  const int32_t table = page_table_of(kv, size);
  if (table > 0) shape.num_pages = kv.windows[static_cast<size_t>(table - 1)].num_slots;
  shape.num_kv_heads = size.num_kv_heads;
  shape.head_dim = size.head_dim;
  shape.value_dim = size.value_dim;
  shape.index_dim = size.index_dim;
  return shape;
}

// Returns the bytes of the buffers that hold the pages of a layer: keys, values, scales of keys, scales of
// values, and keys of the indexer.
std::array<uint64_t, 5> page_bytes(const kernels::KvShape& shape) {
  const kernels::KvShape values = kernels::value_shape(shape);
  return {kernels::kv_data_bytes(shape, shape.key_format), kernels::kv_data_bytes(values, shape.value_format),
          kernels::kv_scale_bytes(shape, shape.key_format),
          kernels::kv_scale_bytes(values, shape.value_format), kernels::kv_index_bytes(shape)};
}

}  // namespace

int32_t page_table_of(const CachePages& pages, const LayerCacheSize& size) {
  if (size.window == 0) return 0;
  const auto group = std::find_if(pages.windows.begin(), pages.windows.end(),
                                  [&](const WindowGroup& entry) { return entry.window >= size.window; });
  return group == pages.windows.end() ? 0 : 1 + static_cast<int32_t>(group - pages.windows.begin());
}

namespace {

// True if the number of the layer's pages with memory can change.
bool grows(const LayerCacheSize& size, const CachePages& kv) {
  return kv.least_pages > 0 && page_table_of(kv, size) == 0;
}

uint64_t bytes_of_one_page(uint64_t bytes, const CachePages& kv) {
  return bytes / static_cast<uint64_t>(kv.num_pages);
}

}  // namespace

uint64_t layer_kv_bytes(const KernelTable& table, const LayerCacheSize& size, const CachePages& kv) {
  if (size.source_layer >= 0) return 0;
  uint64_t total = 0;
  for (const uint64_t bytes : page_bytes(shape_of(size, kv))) {
    if (bytes == 0) continue;
    const uint64_t taken = grows(size, kv)
                               ? ElasticBuffer::taken_bytes(table, bytes_of_one_page(bytes, kv) *
                                                                       static_cast<uint64_t>(kv.least_pages))
                               : table.taken_bytes(bytes);
    total = checked_add<uint64_t>(total, taken, "KV cache");
  }
  return total;
}

namespace {

uint64_t bytes_of_states(const LayerCacheSize& size, const CachePages& kv) {
  return checked_mul<uint64_t>(size.state_bytes, static_cast<uint64_t>(kv.num_state_slots),
                               "recurrent states");
}

}  // namespace

uint64_t layer_state_bytes(const KernelTable& table, const LayerCacheSize& size, const CachePages& kv) {
  const uint64_t bytes = bytes_of_states(size, kv);
  if (bytes == 0) return 0;
  return kv.least_state_slots == 0
             ? table.taken_bytes(bytes)
             : ElasticBuffer::taken_bytes(table,
                                          size.state_bytes * static_cast<uint64_t>(kv.least_state_slots));
}

TransformerMemoryPlan plan_transformer_memory(const KernelTable& table, const TransformerShape& shape,
                                              const CachePages& kv, const StepLimits& limits) {
  TransformerMemoryPlan plan;
  for (const LayerCacheSize& size : shape.caches) {
    plan.kv_bytes = checked_add<uint64_t>(plan.kv_bytes, layer_kv_bytes(table, size, kv), "KV cache");
    plan.state_bytes =
        checked_add<uint64_t>(plan.state_bytes, layer_state_bytes(table, size, kv), "recurrent states");
  }
  plan.activation_bytes = workspace_bytes(shape, limits, table.activation_dtype).taken(table);
  return plan;
}

template <typename T>
T* TransformerMemory::take(const std::shared_ptr<Device>& device, uint64_t bytes, std::string_view what) {
  if (bytes == 0) return nullptr;
  buffers_.emplace_back(device, bytes, fmt::format("allocating {} ({} bytes)", what, bytes));
  return buffers_.back().as<T>();
}

LayerCache TransformerMemory::take_pages(const std::shared_ptr<Device>& device, const LayerCacheSize& size,
                                         const CachePages& kv) {
  LayerCache cache;
  cache.table = page_table_of(kv, size);
  cache.shape = shape_of(size, kv);
  const std::array<uint64_t, 5> bytes = page_bytes(cache.shape);
  const auto take_part = [&](size_t part, std::string_view what) -> void* {
    if (!grows(size, kv) || bytes[part] == 0) return take<void>(device, bytes[part], what);
    growing_.push_back({ElasticBuffer(device, bytes[part], what), bytes_of_one_page(bytes[part], kv)});
    return growing_.back().buffer.as<void>();
  };
  cache.pages.keys = take_part(0, "the KV cache");
  cache.pages.values = take_part(1, "the KV cache");
  cache.pages.key_scales = take_part(2, "KV cache scales");
  cache.pages.value_scales = take_part(3, "KV cache scales");
  cache.pages.index_keys = take_part(4, "keys of the selection");
  return cache;
}

void* TransformerMemory::take_states(const std::shared_ptr<Device>& device, const LayerCacheSize& size,
                                     const CachePages& kv) {
  const uint64_t bytes = bytes_of_states(size, kv);
  if (kv.least_state_slots == 0 || bytes == 0) return take<void>(device, bytes, "recurrent states");
  growing_.push_back({ElasticBuffer(device, bytes, "recurrent states"), size.state_bytes, true});
  return growing_.back().buffer.as<void>();
}

TransformerMemory::TransformerMemory(const std::shared_ptr<Device>& device, const TransformerShape& shape,
                                     const CachePages& kv, const StepLimits& limits)
    : state_slots_(kv.state_slots()) {
  const WorkspaceBytes bytes = workspace_bytes(shape, limits, device->table().activation_dtype);
  workspace_.hidden = take<float>(device, bytes.hidden, "the residual stream");
  workspace_.normed = take<void>(device, bytes.normed, "normalised activations");
  workspace_.qkv = take<void>(device, bytes.qkv, "queries, keys and values");
  workspace_.attention = take<void>(device, bytes.attention, "attention output");
  workspace_.gate_up = take<void>(device, bytes.gate_up, "feed-forward activations");
  workspace_.activated = take<void>(device, bytes.activated, "feed-forward activations");
  for (const uint64_t of_rope : bytes.ropes) {
    float* cosines = take<float>(device, of_rope, "rotary angles");
    ropes_.push_back({cosines, take<float>(device, of_rope, "rotary angles")});
  }
  workspace_.logits = take<float>(device, bytes.logits, "logits");
  for (size_t i = 0; i < kernels::kNumScratch; ++i)
    workspace_.scratch[i] = take<float>(device, bytes.scratch[i], "activations");
  for (const LayerCacheSize& size : shape.caches) {
    owns_pages_.push_back(size.source_layer < 0);
    caches_.push_back(size.source_layer < 0
                          ? take_pages(device, size, kv)
                          : caches_[static_cast<size_t>(size.source_layer - shape.first_layer)]);
    kernels::StateStore& states = caches_.back().states;
    states.memory = take_states(device, size, kv);
    states.slot_stride = size_t{size.state_bytes};
    state_parts_.push_back(size.state_parts);
  }
  set_num_pages(kv.least_pages);
}

void TransformerMemory::set_num_pages(int32_t num_pages) {
  const auto bytes_of = [this](const GrowingPages& of, int32_t pages) {
    return of.page_bytes * static_cast<uint64_t>(of.has_states ? state_slots_.slots_at(pages) : pages);
  };
  try {
    for (GrowingPages& of : growing_) of.buffer.grow(bytes_of(of, num_pages));
  } catch (...) {
    for (GrowingPages& of : growing_) of.buffer.shrink(num_pages_ == 0 ? 0 : bytes_of(of, num_pages_));
    throw;
  }
  for (GrowingPages& of : growing_) of.buffer.shrink(bytes_of(of, num_pages));
  num_pages_ = num_pages;
}

void TransformerMemory::copy_state(const DeviceContext& context, int32_t source, int32_t target) const {
  for (const LayerCache& cache : caches_) {
    if (cache.states.memory == nullptr) continue;
    auto* const first = static_cast<std::byte*>(cache.states.memory);
    kernels::CopyStateParams params;
    params.bytes = cache.states.slot_stride;
    params.source = first + static_cast<size_t>(source) * params.bytes;
    params.target = first + static_cast<size_t>(target) * params.bytes;
    context.check(context.table().copy_state(context.handle(), &params), "copying a state");
  }
}

std::vector<PagePiece> TransformerMemory::pieces_of_state(int32_t slot, int32_t bank) const {
  std::vector<PagePiece> pieces;
  for (size_t layer = 0; layer < caches_.size(); ++layer) {
    const kernels::StateStore& states = caches_[layer].states;
    if (states.memory == nullptr) continue;
    auto* first = static_cast<std::byte*>(states.memory) + static_cast<size_t>(slot) * states.slot_stride;
    for (const uint64_t bytes : state_parts_[layer]) {
      if (bytes > 0) pieces.push_back({first + static_cast<uint64_t>(bank) * (bytes / 2), bytes / 2});
      first += bytes;
    }
  }
  return pieces;
}

std::vector<PagePiece> TransformerMemory::pieces_of(int32_t table, PageId page) const {
  std::vector<PagePiece> pieces;
  for (size_t layer = 0; layer < caches_.size(); ++layer) {
    const LayerCache& cache = caches_[layer];
    if (!owns_pages_[layer] || cache.table != table) continue;
    const std::array<uint64_t, 5> bytes = page_bytes(cache.shape);
    const std::array<void*, 5> buffers = {cache.pages.keys, cache.pages.values, cache.pages.key_scales,
                                          cache.pages.value_scales, cache.pages.index_keys};
    for (size_t i = 0; i < buffers.size(); ++i) {
      const uint64_t of_page = bytes[i] / static_cast<uint64_t>(cache.shape.num_pages);
      auto* const first = static_cast<std::byte*>(buffers[i]);
      if (of_page > 0) pieces.push_back({first + of_page * static_cast<uint64_t>(page.value), of_page});
    }
  }
  return pieces;
}

}  // namespace quire
