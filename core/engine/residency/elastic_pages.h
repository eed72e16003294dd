// The pages of a cache that come and go while it is used: their memory on the devices, and its share of the
// budgets.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "core/engine/residency/runtime.h"
#include "core/kv/kv_cache.h"
#include "core/step/executor.h"

namespace quire {

struct ElasticOptions {
  PageMemory memory;      // null: no budget counts it
  Duration idle_time{0};  // after which what nobody used is given back; 0: never
};

// One thread at a time.
class ElasticPages final : public PageRoom {
 public:
  // Both outlive this. The executor's limits say how many pages there are.
  ElasticPages(Runtime& runtime, Executor& executor, ElasticOptions options);

  int32_t grow(int32_t num_pages) noexcept override;
  int32_t without_last(int32_t num_pages) const noexcept override;
  void shrink(int32_t num_pages) noexcept override;

  // Between two steps, with the cache whose pages these are.
  // Gives back what was not used for a while; whether it was any.
  bool give_idle(KvCache& kv, TimePoint now) noexcept;
  // Gives up to so many bytes of a device back; how many.
  uint64_t give(KvCache& kv, std::string_view device, uint64_t bytes);
  // When give_idle is worth a call; max() where never.
  TimePoint next_event() const { return next_look_; }

 private:
  using Leases = std::vector<MemoryLease>;
  bool take_chunk(int32_t from, int32_t to);
  bool lease_chunk(int32_t from, int32_t to, Leases& leases);
  uint64_t bytes_of(std::string_view device, int32_t num_pages) const;

  Runtime& runtime_;
  Executor& executor_;
  const ElasticOptions options_;
  std::vector<Leases> chunks_;         // of those after the smallest number
  std::optional<uint64_t> room_seen_;  // when there was none for one more
  TimePoint next_look_ = TimePoint::max();
};

}  // namespace quire
