// Object of a quire_stats.
#pragma once

#include <memory>
#include <utility>

#include "capi/src/handle.h"
#include "core/engine/metrics/cache_stats.h"

namespace quire::capi {

struct CacheSnapshot {
  CacheMetrics metrics;
  int32_t page_tokens = 0;
};

// Statistics of a whole cache, or of one namespace in it. Those of namespaces share the snapshot of the
// cache.
struct StatsObject final : Object {
  explicit StatsObject(std::shared_ptr<const CacheSnapshot> of_cache,
                       const NamespaceMetrics* of_name_space = nullptr)
      : cache(std::move(of_cache)), name_space(of_name_space) {}

  const JobCounts& counts() const {
    return name_space == nullptr ? static_cast<const JobCounts&>(cache->metrics.stats) : name_space->counts;
  }
  const JobHistograms& jobs() const {
    return name_space == nullptr ? cache->metrics.jobs : name_space->histograms;
  }

  const std::shared_ptr<const CacheSnapshot> cache;
  const NamespaceMetrics* const name_space;  // in `cache`; nullptr: the whole cache
};

template <>
struct HandleTraits<quire_stats> {
  using Object = StatsObject;
  static constexpr HandleType type = HandleType::stats;
};

}  // namespace quire::capi
