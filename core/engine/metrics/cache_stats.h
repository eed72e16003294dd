// What a cache tells of itself: plain figures, for people and for tests. No logic reads them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/engine/prefixes/prefix_options.h"
#include "core/metrics/histogram.h"

namespace quire {

struct PageStats {
  int32_t total = 0;
  int32_t free = 0;        // hold nothing
  int32_t cached = 0;      // hold a prefix nobody uses now; taken when free ones run out
  int32_t referenced = 0;  // used by a job or pinned; free + cached + referenced == total
  int32_t pinned = 0;      // of the referenced
};

// The jobs of a cache, or of one namespace in it.
struct JobCounts {
  int32_t queued_jobs = 0;
  int32_t running_jobs = 0;     // prefill, generating or paused
  uint64_t submitted_jobs = 0;  // queued + running + finished
  uint64_t finished_jobs = 0;   // in any way
  uint64_t failed_jobs = 0;
  uint64_t cancelled_jobs = 0;
  uint64_t preemptions = 0;
  uint64_t prompt_tokens_computed = 0;
  uint64_t prompt_tokens_cached = 0;  // found in the cache instead
  uint64_t new_tokens = 0;
  uint64_t draft_tokens = 0;           // proposed by speculation
  uint64_t draft_tokens_accepted = 0;  // of them, those that stood
};

// A snapshot taken between two steps.
struct CacheStats : JobCounts {
  PageStats pages;
  PrefixStats prefixes;
  uint64_t steps = 0;
  uint64_t pages_deduplicated = 0;
  uint64_t pages_evicted = 0;
  ErrorCode engine_error = ErrorCode::ok;  // not ok: the device is gone and every call fails with it
};

// Times in seconds.
struct JobHistograms {
  Histogram time_queued{long_time_bounds()};          // submit to first step, of jobs that had one
  Histogram time_to_first_token{long_time_bounds()};  // from submit
  Histogram time_between_tokens{short_time_bounds()};
  Histogram cached_share{share_bounds()};  // of a prompt, of jobs that may reuse
};

struct StepHistograms {
  Histogram batch_fill{share_bounds()};  // of the places for running jobs, those that took part
  Histogram sequences{count_bounds()};
  Histogram tokens{count_bounds()};
};

struct NamespaceMetrics {
  std::string name;
  JobCounts counts;
  JobHistograms histograms;
  int32_t held_pages = 0;  // by its jobs; a shared page counts for each of its holders
  int32_t pinned_pages = 0;
};

struct CacheMetrics {
  CacheStats stats;
  std::vector<uint64_t> shard_bytes;  // device memory of the cache, as EngineParts has it
  JobHistograms jobs;
  StepHistograms steps;
  std::vector<NamespaceMetrics> name_spaces;  // as they came; at most MetricsStore::kMaxNamespaces
  uint64_t untracked_jobs = 0;                // of namespaces that came beyond that
};

}  // namespace quire
