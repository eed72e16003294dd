#include <cstring>

#include "kernels/cpu/device.h"
#include "kernels/cpu/table_entries.h"
#include "kernels/interface/host_memory.h"

namespace quire::kernels {

namespace cpu_entries {
namespace {

// Copies the first tokens of each head of a page.
void copy_heads(const KvShape& shape, size_t token_bytes, void* base, const CopyPageParams& params) {
  if (base == nullptr) return;
  const size_t head_bytes = token_bytes * static_cast<size_t>(shape.page_tokens);
  const size_t page_bytes = head_bytes * static_cast<size_t>(shape.num_kv_heads);
  auto* bytes = static_cast<uint8_t*>(base);
  for (size_t head = 0; head < static_cast<size_t>(shape.num_kv_heads); ++head) {
    std::memcpy(bytes + static_cast<size_t>(params.target) * page_bytes + head * head_bytes,
                bytes + static_cast<size_t>(params.source) * page_bytes + head * head_bytes,
                token_bytes * static_cast<size_t>(params.num_tokens));
  }
}

// Returns the shape of a cache of one token, for the bytes of one token's codes and scales in one head.
KvShape one_token(const KvShape& shape) {
  KvShape one = shape;
  one.page_tokens = one.num_pages = one.num_kv_heads = 1;
  return one;
}

}  // namespace

void memory_use(const Device* device, MemoryUse* use) {
  *use = device->meter.use();
}

uint64_t taken_bytes(uint64_t bytes) {
  return bytes;
}

Status allocate(Device* device, size_t bytes, void** memory) {
  *memory = nullptr;
  return guarded(device, "memory", [&] {
    const std::lock_guard<std::mutex> lock(device->buffers_mutex);
    if (!device->meter.take(bytes)) throw OutOfMemory(bytes);
    void* const taken = take_host_memory(bytes == 0 ? 1 : bytes);
    try {
      if (taken == nullptr) throw OutOfMemory(bytes);
      device->buffers.emplace(taken, bytes);
    } catch (...) {
      device->meter.give_back(bytes);
      give_host_memory(taken, bytes);
      throw;
    }
    *memory = taken;
    return Status::ok;
  });
}

void release(Device* device, void* memory) {
  if (memory == nullptr) return;
  const std::lock_guard<std::mutex> lock(device->buffers_mutex);
  const auto buffer = device->buffers.find(memory);
  const size_t bytes = buffer->second;
  device->meter.give_back(bytes);
  device->buffers.erase(buffer);
  give_host_memory(memory, bytes);
}

Status reserve(Device* device, size_t bytes, void** range) {
  *range = nullptr;
  return guarded(device, "addresses", [&] {
    const std::lock_guard<std::mutex> lock(device->buffers_mutex);
    device->ranges.reserve(device->ranges.size() + 1);
    void* const reserved = reserve_host_range(bytes);
    if (reserved == nullptr) throw OutOfMemory(bytes);
    device->ranges[reserved].bytes = bytes;
    *range = reserved;
    return Status::ok;
  });
}

Status map(Device* device, void* range, size_t offset, size_t bytes) {
  return guarded(device, "memory", [&] {
    const std::lock_guard<std::mutex> lock(device->buffers_mutex);
    const auto piece = device->ranges.at(range).pieces.emplace(offset, bytes).first;
    const auto refuse = [&](bool is_counted) {
      if (is_counted) device->meter.give_back(bytes);
      device->ranges.at(range).pieces.erase(piece);
      throw OutOfMemory(bytes);
    };
    if (!device->meter.take(bytes)) refuse(false);
    if (!map_host_range(static_cast<std::byte*>(range) + offset, bytes)) refuse(true);
    return Status::ok;
  });
}

void unmap(Device* device, void* range, size_t offset) {
  const std::lock_guard<std::mutex> lock(device->buffers_mutex);
  auto& pieces = device->ranges.at(range).pieces;
  const auto piece = pieces.find(offset);
  unmap_host_range(static_cast<std::byte*>(range) + offset, piece->second);
  device->meter.give_back(piece->second);
  pieces.erase(piece);
}

void unreserve(Device* device, void* range) {
  if (range == nullptr) return;
  const std::lock_guard<std::mutex> lock(device->buffers_mutex);
  const auto reserved = device->ranges.find(range);
  for (const auto& [offset, bytes] : reserved->second.pieces) device->meter.give_back(bytes);
  unreserve_host_range(range, reserved->second.bytes);
  device->ranges.erase(reserved);
}

void trim(Device*) {}

Status upload(Device*, void* target, const void* host, size_t bytes) {
  if (bytes != 0) std::memcpy(target, host, bytes);
  return Status::ok;
}

Status download(Device*, void* host, const void* source, size_t bytes) {
  if (bytes != 0) std::memcpy(host, source, bytes);
  return Status::ok;
}

Status fill(Device*, void* target, uint8_t byte, size_t bytes) {
  if (bytes != 0) std::memset(target, byte, bytes);
  return Status::ok;
}

Status copy_page(Context*, const CopyPageParams* params) {
  const KvShape& shape = params->kv_shape;
  const auto is_page = [&](int32_t page) { return page >= 0 && page < shape.num_pages; };
  if (!is_page(params->source) || !is_page(params->target) || params->num_tokens < 0 ||
      params->num_tokens > shape.page_tokens) {
    return failed(Status::invalid_argument, "copy_page: %d tokens of page %d to page %d of %d",
                  params->num_tokens, params->source, params->target, shape.num_pages);
  }
  if (params->source == params->target) return Status::ok;
  const KvShape key = one_token(shape);
  const KvShape value = one_token(value_shape(shape));
  copy_heads(shape, kv_data_bytes(key, shape.key_format), params->kv.keys, *params);
  copy_heads(shape, kv_data_bytes(value, shape.value_format), params->kv.values, *params);
  copy_heads(shape, kv_scale_bytes(key, shape.key_format), params->kv.key_scales, *params);
  copy_heads(shape, kv_scale_bytes(value, shape.value_format), params->kv.value_scales, *params);
  KvShape index = shape;
  index.num_kv_heads = 1;
  copy_heads(index, kv_index_bytes(key), params->kv.index_keys, *params);
  return Status::ok;
}

}  // namespace cpu_entries
}  // namespace quire::kernels
