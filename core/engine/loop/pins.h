// Pinned prefixes: pages protected from eviction although no job uses them.
#pragma once

#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/engine/jobs/namespaces.h"
#include "core/engine/metrics/metrics_store.h"
#include "core/engine/settings/pin_id.h"
#include "core/kv/kv_cache.h"

namespace quire {

// Not thread-safe.
class Pins {
 public:
  // `max_pages`: limit over all namespaces.
  Pins(KvCache& kv, const Namespaces& name_spaces, MetricsStore& metrics_store, int32_t max_pages)
      : kv_(kv), namespaces_(name_spaces), metrics_store_(metrics_store), max_pages_(max_pages) {}

  // Throws ErrorCode::quota beyond the limits, and ErrorCode::not_found if not even one page is cached.
  PinId add(const TokenIds& prompt, const std::string& name_space, TimePoint expires);
  void remove(PinId pin) noexcept;
  void remove_oldest() noexcept { remove(pins_.front().id); }
  void expire(TimePoint now) noexcept;
  bool empty() const { return pins_.empty(); }
  TimePoint next_expiry() const;
  // Adds the pinned pages to the metrics of their namespaces. Returns the total.
  int32_t count_pages() noexcept;

 private:
  struct Pin {
    PinId id;
    std::string name_space;
    int32_t metrics_index;
    PinnedPrefix prefix;
    TimePoint expires;
    int32_t num_own_pages = 0;  // pages that no earlier pin contains
  };

  void count_own_pages() noexcept;

  KvCache& kv_;
  const Namespaces& namespaces_;
  MetricsStore& metrics_store_;
  int32_t max_pages_;
  std::vector<Pin> pins_;
  uint64_t last_id_ = 0;
};

}  // namespace quire
