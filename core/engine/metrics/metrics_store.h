// Counts what the jobs of one cache do: for the cache as a whole, and again for each namespace.
#pragma once

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/mutex.h"
#include "core/engine/metrics/cache_stats.h"

namespace quire {

// The engine's thread writes and publishes; any thread reads what was published last.
class MetricsStore {
 public:
  // More namespaces than this are not told apart, so that callers that make up a name per request fill
  // neither memory nor a monitoring system.
  static constexpr size_t kMaxNamespaces = 64;
  static constexpr int32_t kNoPlace = -1;

  MetricsStore();

  // The place of a namespace, which is kept for good; kNoPlace where there are too many. Changes nothing
  // where it throws.
  int32_t place_of(const std::string& name);
  // A job was taken in; its namespace has this place.
  void submitted(int32_t place) noexcept;

  // `change` is called with the counts, or the histograms, of the cache and with those of the namespace.
  template <typename Change>
  void count(int32_t place, Change&& change) noexcept {
    change(static_cast<JobCounts&>(current_.stats));
    if (place != kNoPlace) change(touch(place).counts);
  }
  template <typename Change>
  void observe(int32_t place, Change&& change) noexcept {
    change(current_.jobs);
    if (place != kNoPlace) change(touch(place).histograms);
  }
  StepHistograms& steps() { return current_.steps; }
  // What belongs to no job.
  CacheStats& cache() { return current_.stats; }

  // Pages of namespaces are counted anew before each publish.
  void clear_pages() noexcept;
  void add_pages(int32_t place, int32_t num_held, int32_t num_pinned) noexcept;

  void publish() noexcept;

  CacheStats stats() const;
  CacheMetrics read() const;

 private:
  NamespaceMetrics& touch(int32_t place) {
    touched_[static_cast<size_t>(place)] = true;
    return current_.name_spaces[static_cast<size_t>(place)];
  }

  CacheMetrics current_;
  std::vector<bool> touched_;  // since the last publish, as current_.name_spaces
  std::unordered_map<std::string, int32_t> places_;

  mutable Mutex published_mutex_;
  CacheMetrics published_ QUIRE_GUARDED_BY(published_mutex_);
};

}  // namespace quire
