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

// Statistics of a cache, and the value of its label.
struct LabelledMetrics {
  std::string label;
  CacheMetrics metrics;
};
// Returns the text for several caches, in which each family appears once.
std::string format_metrics(const std::vector<LabelledMetrics>& caches);

}  // namespace quire
