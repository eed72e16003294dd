// Statistics of one engine's jobs: in total, and for each namespace.
#pragma once

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/mutex.h"
#include "core/engine/metrics/cache_stats.h"

namespace quire {

// The engine's thread writes and publishes. Any thread reads the last published state.
class MetricsStore {
 public:
  // Further namespaces are not counted separately, so that callers that invent a name for each request fill
  // neither memory nor a monitoring system.
  static constexpr size_t kMaxNamespaces = 64;
  static constexpr int32_t kNoIndex = -1;

  MetricsStore();

  // Returns the index of a namespace, which never changes, or kNoPlace beyond kMaxNamespaces. Changes nothing
  // if it throws.
  int32_t place_of(const std::string& name);
  // Counts an accepted job of the namespace with this index.
  void submitted(int32_t place) noexcept;

  // Calls `change` with the counts (`observe`: the histograms) of the cache, and again with those of the
  // namespace.
  template <typename Change>
  void count(int32_t place, Change&& change) noexcept {
    change(static_cast<JobCounts&>(current_.stats));
    if (place != kNoIndex) change(touch(place).counts);
  }
  template <typename Change>
  void observe(int32_t place, Change&& change) noexcept {
    change(current_.jobs);
    if (place != kNoIndex) change(touch(place).histograms);
  }
  StepHistograms& steps() { return current_.steps; }
  // Counters that belong to no job.
  CacheStats& cache() { return current_.stats; }

  // Reset and sum up the pages of namespaces. Called before each publish.
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
  std::vector<bool> touched_;  // since the last publish; same order as current_.name_spaces
  std::unordered_map<std::string, int32_t> places_;

  mutable Mutex published_mutex_;
  CacheMetrics published_ QUIRE_GUARDED_BY(published_mutex_);
};

}  // namespace quire
