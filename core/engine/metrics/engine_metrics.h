// Writes the statistics of caches in the Prometheus text format.
#pragma once

#include <string>
#include <vector>

#include "core/engine/metrics/cache_stats.h"

namespace quire {

// Returns the text. Every sample has the label cache. Samples of a namespace also have the label namespace;
// their families have names of their own, so that a sum counts nothing twice. docs/metrics.md lists the names
// and their meanings, which never change.
std::string format_metrics(const CacheMetrics& metrics, const std::string& label);

// Writes several caches on one page, on which each family appears once.
struct LabelledMetrics {
  std::string label;
  CacheMetrics metrics;
};
std::string format_metrics(const std::vector<LabelledMetrics>& caches);

}  // namespace quire
