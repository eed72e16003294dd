// Elastic pages: grow and shrink a cache while it is in use, with leases for their memory.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "core/engine/residency/runtime.h"
#include "core/kv/kv_cache.h"
#include "core/step/executor.h"

namespace quire {

struct ElasticOptions {
  PageMemory memory;      // null: the pages count in no budget
  Duration idle_time{0};  // after which unused chunks are freed; 0: never
};

// Not thread-safe.
class ElasticPages final : public PageMemorySource {
 public:
  // Both must outlive this. The executor's limits define the numbers of pages.
  ElasticPages(Runtime& runtime, Executor& executor, ElasticOptions options);

  int32_t grow(int32_t num_pages) noexcept override;
  int32_t num_pages_without_last_chunk(int32_t num_pages) const noexcept override;
  void shrink(int32_t num_pages) noexcept override;

  // The following must be called between two steps, with the cache of these pages.
  // Frees chunks that were unused for the idle time. Returns true if there were any.
  bool free_idle_pages(KvCache& kv, TimePoint now) noexcept;
  // Frees up to `bytes` bytes of a device. Returns the number of bytes freed.
  uint64_t give(KvCache& kv, std::string_view device, uint64_t bytes);
  // Returns when to call give_idle next; max(): never.
  TimePoint next_event() const { return next_idle_check_; }

 private:
  using Leases = std::vector<MemoryLease>;
  bool take_chunk(int32_t from, int32_t to);
  bool lease_chunk(int32_t from, int32_t to, Leases& leases);
  uint64_t bytes_of(std::string_view device, int32_t num_pages) const;

  Runtime& runtime_;
  Executor& executor_;
  const ElasticOptions options_;
  std::vector<Leases> chunks_;                   // leases of each chunk beyond the smallest size
  std::optional<uint64_t> memory_changes_seen_;  // value of room_changes at the last failure to grow
  TimePoint next_idle_check_ = TimePoint::max();
};

}  // namespace quire
