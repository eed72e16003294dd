// Statistics of a cache: plain numbers for people and tests. No logic reads them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/drafting/drafting_options.h"
#include "core/engine/prefixes/prefix_options.h"
#include "core/metrics/histogram.h"
#include "core/step/executor.h"

namespace quire {

struct PageStats {
  int32_t total = 0;
  int32_t free = 0;        // empty
  int32_t cached = 0;      // contain a prefix that no job uses now; evicted when no page is free
  int32_t referenced = 0;  // used by a job or pinned; free + cached + referenced == total
  int32_t pinned = 0;      // part of `referenced`
};

// Counts of draft tokens, proposed by speculative decoding.
struct DraftCounts {
  uint64_t draft_tokens = 0;
  uint64_t draft_tokens_accepted = 0;
  // Accepted ones by their position among the drafts of a step.
  std::array<uint64_t, static_cast<size_t>(kMaxDrafts)> accepted_by_position{};
};

// Counts of the jobs of a cache, or of one namespace in it.
struct JobCounts : DraftCounts {
  int32_t queued_jobs = 0;
  int32_t running_jobs = 0;     // prefill, generating or paused
  uint64_t submitted_jobs = 0;  // queued + running + finished
  uint64_t finished_jobs = 0;   // however they ended
  uint64_t failed_jobs = 0;
  uint64_t cancelled_jobs = 0;
  uint64_t preemptions = 0;
  uint64_t prompt_tokens_computed = 0;
  uint64_t prompt_tokens_cached = 0;  // found in the prefix cache instead
  uint64_t new_tokens = 0;
};

// Snapshot taken between two steps.
struct CacheStats : JobCounts {
  PageStats pages;
  PrefixStats prefixes;
  uint64_t steps = 0;
  ExpertUse card_experts;
  uint64_t pages_deduplicated = 0;
  uint64_t pages_evicted = 0;
  ErrorCode engine_error = ErrorCode::ok;  // not ok: the device is lost and every call fails with this error
};

// Times in seconds.
struct JobHistograms {
  Histogram time_queued{long_time_bounds()};          // submit to first step, for jobs that had one
  Histogram time_to_first_token{long_time_bounds()};  // from submit
  Histogram time_between_tokens{short_time_bounds()};
  // Fraction of the prompt found in the cache, for jobs that may reuse pages.
  Histogram cached_share{share_bounds()};
};

struct StepHistograms {
  Histogram batch_fill{share_bounds()};  // jobs that took part in a step, as a fraction of max_running_jobs
  Histogram sequences{count_bounds()};
  Histogram tokens{count_bounds()};
};

struct NamespaceMetrics {
  std::string name;
  JobCounts counts;
  JobHistograms histograms;
  int32_t held_pages = 0;  // pages of its jobs; a shared page counts for each job that uses it
  int32_t pinned_pages = 0;
};

struct CacheMetrics {
  CacheStats stats;
  std::vector<uint64_t> shard_bytes;  // device memory of the cache, as in EngineParts
  JobHistograms jobs;
  StepHistograms steps;
  std::vector<NamespaceMetrics> name_spaces;  // in order of first use; at most MetricsStore::kMaxNamespaces
  uint64_t untracked_jobs = 0;                // jobs of namespaces beyond that limit
};

}  // namespace quire
