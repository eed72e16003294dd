// What one cache counts about itself, for people to look at; no logic reads it.
#pragma once

#include <string>

#include "core/engine/cache.h"
#include "core/metrics/histogram.h"

namespace quire {

// Times in seconds.
struct EngineMetrics {
  Histogram time_queued{1e-4};
  Histogram time_to_first_token{1e-4};  // from submit
  Histogram time_between_tokens{1e-5};
  Histogram sequences_per_step{1.0};
  Histogram tokens_per_step{1.0};
};

// One page of Prometheus text; every sample carries cache="label".
std::string format_metrics(const CacheStats& stats, const EngineMetrics& metrics, const std::string& label);

}  // namespace quire
