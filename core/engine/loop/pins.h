// Prefixes that are kept in the cache though no job needs them.
#pragma once

#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/engine/jobs/namespaces.h"
#include "core/engine/metrics/metrics_store.h"
#include "core/engine/settings/pin_id.h"
#include "core/kv/kv_cache.h"

namespace quire {

// One thread at a time.
class Pins {
 public:
  // `max_pages`: over all namespaces.
  Pins(KvCache& kv, const Namespaces& name_spaces, MetricsStore& metrics_store, int32_t max_pages)
      : kv_(kv), namespaces_(name_spaces), metrics_store_(metrics_store), max_pages_(max_pages) {}

  // Throws ErrorCode::quota beyond the limits, ErrorCode::not_found where not one page is cached.
  PinId add(const TokenIds& prompt, const std::string& name_space, TimePoint expires);
  void remove(PinId pin) noexcept;
  void remove_oldest() noexcept { remove(pins_.front().id); }
  void expire(TimePoint now) noexcept;
  bool empty() const { return pins_.empty(); }
  TimePoint next_expiry() const;
  // Into the metrics_store, by namespace; the sum.
  int32_t count_pages() noexcept;

 private:
  struct Pin {
    PinId id;
    std::string name_space;
    int32_t book_place;
    std::vector<PageId> pages;
    TimePoint expires;
    int32_t num_own_pages = 0;  // those that no pin before it keeps
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
