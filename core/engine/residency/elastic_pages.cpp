#include "core/engine/residency/elastic_pages.h"

#include <algorithm>
#include <utility>

#include "core/base/contain.h"
#include "core/base/deadline.h"

namespace quire {

ElasticPages::ElasticPages(Runtime& runtime, Executor& executor, ElasticOptions options)
    : runtime_(runtime), executor_(executor), options_(std::move(options)) {}

int32_t ElasticPages::num_pages_without_last_chunk(int32_t num_pages) const noexcept {
  const ExecutorLimits& limits = executor_.limits();
  const int32_t beyond = num_pages - limits.least_pages;
  return beyond <= 0 ? num_pages
                     : limits.least_pages + (beyond - 1) / limits.chunk_pages * limits.chunk_pages;
}

// Adds a chunk of pages. After a failure does not try again until memory may have become free.
int32_t ElasticPages::grow(int32_t num_pages) noexcept {
  const ExecutorLimits& limits = executor_.limits();
  const int32_t grown = std::min(limits.num_pages, num_pages + limits.chunk_pages);
  if (grown == num_pages || memory_changes_seen_ == runtime_.residency_registry().num_memory_changes())
    return num_pages;
  bool has_grown = false;
  contain(
      "no memory", [&] { has_grown = take_chunk(num_pages, grown); },
      [](ErrorCode, std::string_view) {});  // the cache keeps its size
  if (!has_grown) {
    memory_changes_seen_ = runtime_.residency_registry().num_memory_changes();
    return num_pages;
  }
  if (next_idle_check_ == TimePoint::max() && options_.idle_time > Duration{0})
    next_idle_check_ = deadline_after(runtime_.clock().now(), options_.idle_time);
  return grown;
}

bool ElasticPages::take_chunk(int32_t from, int32_t to) {
  chunks_.reserve(chunks_.size() + 1);
  Leases leases;
  if (!lease_chunk(from, to, leases)) return false;
  executor_.set_num_pages(to);
  for (MemoryLease& lease : leases) lease.settle();
  chunks_.push_back(std::move(leases));
  return true;
}

bool ElasticPages::lease_chunk(int32_t from, int32_t to, Leases& leases) {
  if (options_.memory == nullptr) return true;
  std::vector<MemoryRequest> memory_requests = options_.memory(to);
  const std::vector<MemoryRequest> had = options_.memory(from);
  for (size_t i = 0; i < memory_requests.size(); ++i) {
    memory_requests[i].bytes -= had[i].bytes;
    memory_requests[i].is_evictable = true;
    std::optional<MemoryLease> lease = runtime_.try_lease_free(memory_requests[i]);
    if (!lease) return false;
    leases.push_back(std::move(*lease));
  }
  return true;
}

// Frees the last chunk. Ignores errors: a lost device keeps its memory, and the next step reports the loss.
void ElasticPages::shrink(int32_t num_pages) noexcept {
  contain(
      "no memory", [&] { executor_.set_num_pages(num_pages_without_last_chunk(num_pages)); },
      [](ErrorCode, std::string_view) {});
  chunks_.pop_back();
}

bool ElasticPages::free_idle_pages(KvCache& kv, TimePoint now) noexcept {
  if (now < next_idle_check_) return false;
  const PagePool& pool = kv.pool();
  const int32_t before = pool.num_pages();
  const KvCache::RecentUse used = kv.take_recent_use();
  const auto is_idle = [&](int32_t kept) {
    return kept >= used.num_pages && kv.state_slots_at(kept) >= used.num_slots;
  };
  while (!chunks_.empty() && is_idle(num_pages_without_last_chunk(pool.num_pages())) && kv.shrink()) {
  }
  next_idle_check_ = chunks_.empty() ? TimePoint::max() : deadline_after(now, options_.idle_time);
  return pool.num_pages() < before;
}

uint64_t ElasticPages::bytes_of(std::string_view device, int32_t num_pages) const {
  uint64_t bytes = 0;
  for (const MemoryRequest& memory_request : options_.memory(num_pages))
    bytes += memory_request.device == device ? memory_request.bytes : 0;
  return bytes;
}

uint64_t ElasticPages::give(KvCache& kv, std::string_view device, uint64_t bytes) {
  if (options_.memory == nullptr) return 0;
  // A chunk may share an allocation unit with other chunks, so that freeing it alone releases no memory.
  const auto bytes_now = [&] { return bytes_of(device, kv.pool().num_pages()); };
  const uint64_t before = bytes_now();
  const uint64_t least = bytes_of(device, executor_.limits().least_pages);
  while (before - bytes_now() < bytes && bytes_now() > least && kv.shrink()) {
  }
  return before - bytes_now();
}

}  // namespace quire
