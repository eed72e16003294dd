// The figures of a cache as a page for a monitoring system.
#pragma once

#include <string>
#include <vector>

#include "core/engine/metrics/cache_stats.h"

namespace quire {

// One page of Prometheus text. Every sample carries cache="label"; those of a namespace, whose families have
// names of their own so that a sum counts nothing twice, carry namespace="name" as well. Names and meanings
// are listed in docs/metrics.md and stay.
std::string format_metrics(const CacheMetrics& metrics, const std::string& label);

// The same of several caches on one page, on which each family stands once.
struct LabelledMetrics {
  std::string label;
  CacheMetrics metrics;
};
std::string format_metrics(const std::vector<LabelledMetrics>& caches);

}  // namespace quire
