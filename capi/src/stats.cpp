#include <limits>
#include <numeric>

#include <quire/stats.h>

#include "capi/src/arguments.h"
#include "capi/src/guard.h"
#include "capi/src/stats_object.h"

using namespace quire::capi;
using quire::Histogram;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kNanosecondsPerSecond = 1e9;

// Calls `read` with the snapshot.
template <typename Read>
int64_t get(quire_stats* stats, quire_error** error, Read&& read) noexcept {
  return guard(error, int64_t{-1}, [&] { return static_cast<int64_t>(read(*Pinned(stats, "stats"))); });
}

// A histogram, and the factor for its returned values.
struct Scaled {
  const Histogram& values;
  double unit;
};

Scaled histogram_of(const StatsObject& of, int32_t histogram) {
  switch (histogram) {
    case QUIRE_HISTOGRAM_TIME_QUEUED:
      return {of.jobs().time_queued, kNanosecondsPerSecond};
    case QUIRE_HISTOGRAM_TIME_TO_FIRST_TOKEN:
      return {of.jobs().time_to_first_token, kNanosecondsPerSecond};
    case QUIRE_HISTOGRAM_TIME_BETWEEN_TOKENS:
      return {of.jobs().time_between_tokens, kNanosecondsPerSecond};
    case QUIRE_HISTOGRAM_CACHED_SHARE:
      return {of.jobs().cached_share, 1.0};
    case QUIRE_HISTOGRAM_BATCH_FILL:
      return {of.cache->metrics.steps.batch_fill, 1.0};
    case QUIRE_HISTOGRAM_STEP_SEQUENCES:
      return {of.cache->metrics.steps.sequences, 1.0};
    case QUIRE_HISTOGRAM_STEP_TOKENS:
      return {of.cache->metrics.steps.tokens, 1.0};
    default:
      throw quire::Error(quire::ErrorCode::invalid_argument,
                         "histogram: {} is not a value of QUIRE_HISTOGRAM_*", histogram)
          .at("histogram");
  }
}

const quire::NamespaceMetrics& name_space_at(const StatsObject& of, int32_t namespace_idx) {
  const auto& spaces = of.cache->metrics.name_spaces;
  const auto num_spaces = of.name_space == nullptr ? static_cast<int32_t>(spaces.size()) : 0;
  if (num_spaces == 0)
    throw quire::Error(quire::ErrorCode::invalid_argument,
                       "namespace_idx: these statistics have no namespaces")
        .at("namespace_idx");
  return spaces[static_cast<size_t>(range_argument(namespace_idx, 0, num_spaces - 1, "namespace_idx"))];
}

}  // namespace

int64_t quire_stats_page_tokens(quire_stats* stats, quire_error** error) {
  return get(stats, error, [](const StatsObject& of) { return of.cache->page_tokens; });
}

int64_t quire_stats_pages_total(quire_stats* stats, quire_error** error) {
  return get(stats, error, [](const StatsObject& of) { return of.cache->metrics.stats.pages.total; });
}

int64_t quire_stats_pages_free(quire_stats* stats, quire_error** error) {
  return get(stats, error, [](const StatsObject& of) { return of.cache->metrics.stats.pages.free; });
}

int64_t quire_stats_pages_cached(quire_stats* stats, quire_error** error) {
  return get(stats, error, [](const StatsObject& of) { return of.cache->metrics.stats.pages.cached; });
}

int64_t quire_stats_pages_referenced(quire_stats* stats, quire_error** error) {
  return get(stats, error, [](const StatsObject& of) {
    return of.name_space == nullptr ? of.cache->metrics.stats.pages.referenced : of.name_space->held_pages;
  });
}

int64_t quire_stats_pages_pinned(quire_stats* stats, quire_error** error) {
  return get(stats, error, [](const StatsObject& of) {
    return of.name_space == nullptr ? of.cache->metrics.stats.pages.pinned : of.name_space->pinned_pages;
  });
}

int64_t quire_stats_pages_evicted(quire_stats* stats, quire_error** error) {
  return get(stats, error, [](const StatsObject& of) { return of.cache->metrics.stats.pages_evicted; });
}

int64_t quire_stats_pages_deduplicated(quire_stats* stats, quire_error** error) {
  return get(stats, error, [](const StatsObject& of) { return of.cache->metrics.stats.pages_deduplicated; });
}

int64_t quire_stats_prefix_host_pages(quire_stats* stats, quire_error** error) {
  return get(stats, error, [](const StatsObject& of) {
    return static_cast<int64_t>(of.cache->metrics.stats.prefixes.host_pages);
  });
}

int64_t quire_stats_prefix_host_bytes(quire_stats* stats, quire_error** error) {
  return get(stats, error, [](const StatsObject& of) {
    return static_cast<int64_t>(of.cache->metrics.stats.prefixes.host_bytes);
  });
}

int64_t quire_stats_prefix_file_pages(quire_stats* stats, quire_error** error) {
  return get(stats, error, [](const StatsObject& of) {
    return static_cast<int64_t>(of.cache->metrics.stats.prefixes.file_pages);
  });
}

int64_t quire_stats_prefix_file_bytes(quire_stats* stats, quire_error** error) {
  return get(stats, error, [](const StatsObject& of) {
    return static_cast<int64_t>(of.cache->metrics.stats.prefixes.file_bytes);
  });
}

int64_t quire_stats_prefix_pages_restored(quire_stats* stats, quire_error** error) {
  return get(stats, error, [](const StatsObject& of) {
    return static_cast<int64_t>(of.cache->metrics.stats.prefixes.pages_restored);
  });
}

int64_t quire_stats_prefix_files_refused(quire_stats* stats, quire_error** error) {
  return get(stats, error, [](const StatsObject& of) {
    return static_cast<int64_t>(of.cache->metrics.stats.prefixes.files_refused);
  });
}

int64_t quire_stats_jobs_queued(quire_stats* stats, quire_error** error) {
  return get(stats, error, [](const StatsObject& of) { return of.counts().queued_jobs; });
}

int64_t quire_stats_jobs_running(quire_stats* stats, quire_error** error) {
  return get(stats, error, [](const StatsObject& of) { return of.counts().running_jobs; });
}

int64_t quire_stats_jobs_submitted(quire_stats* stats, quire_error** error) {
  return get(stats, error, [](const StatsObject& of) { return of.counts().submitted_jobs; });
}

int64_t quire_stats_jobs_finished(quire_stats* stats, quire_error** error) {
  return get(stats, error, [](const StatsObject& of) { return of.counts().finished_jobs; });
}

int64_t quire_stats_jobs_failed(quire_stats* stats, quire_error** error) {
  return get(stats, error, [](const StatsObject& of) { return of.counts().failed_jobs; });
}

int64_t quire_stats_jobs_cancelled(quire_stats* stats, quire_error** error) {
  return get(stats, error, [](const StatsObject& of) { return of.counts().cancelled_jobs; });
}

int64_t quire_stats_preemptions(quire_stats* stats, quire_error** error) {
  return get(stats, error, [](const StatsObject& of) { return of.counts().preemptions; });
}

int64_t quire_stats_steps(quire_stats* stats, quire_error** error) {
  return get(stats, error, [](const StatsObject& of) { return of.cache->metrics.stats.steps; });
}

int64_t quire_stats_card_expert_hits(quire_stats* stats, quire_error** error) {
  return get(stats, error, [](const StatsObject& of) { return of.cache->metrics.stats.card_experts.hits; });
}

int64_t quire_stats_card_expert_misses(quire_stats* stats, quire_error** error) {
  return get(stats, error, [](const StatsObject& of) { return of.cache->metrics.stats.card_experts.misses; });
}

int64_t quire_stats_prompt_tokens(quire_stats* stats, quire_error** error) {
  return get(stats, error, [](const StatsObject& of) { return of.counts().prompt_tokens_computed; });
}

int64_t quire_stats_cached_tokens(quire_stats* stats, quire_error** error) {
  return get(stats, error, [](const StatsObject& of) { return of.counts().prompt_tokens_cached; });
}

int64_t quire_stats_new_tokens(quire_stats* stats, quire_error** error) {
  return get(stats, error, [](const StatsObject& of) { return of.counts().new_tokens; });
}

int64_t quire_stats_draft_tokens(quire_stats* stats, quire_error** error) {
  return get(stats, error, [](const StatsObject& of) { return of.counts().draft_tokens; });
}

int64_t quire_stats_accepted_draft_tokens(quire_stats* stats, quire_error** error) {
  return get(stats, error, [](const StatsObject& of) { return of.counts().draft_tokens_accepted; });
}

int64_t quire_stats_accepted_by_position(quire_stats* stats, int64_t* out_counts, size_t out_capacity,
                                         quire_error** error) {
  return get(stats, error, [&](const StatsObject& of) {
    return write_counts(of.counts().accepted_by_position, of.counts().draft_tokens > 0, out_counts,
                        out_capacity);
  });
}

int64_t quire_stats_device_bytes(quire_stats* stats, quire_error** error) {
  return get(stats, error, [](const StatsObject& of) {
    const std::vector<uint64_t>& of_shards = of.cache->metrics.shard_bytes;
    return std::accumulate(of_shards.begin(), of_shards.end(), uint64_t{0});
  });
}

int32_t quire_stats_num_shards(quire_stats* stats, quire_error** error) {
  return static_cast<int32_t>(
      get(stats, error, [](const StatsObject& of) { return of.cache->metrics.shard_bytes.size(); }));
}

int64_t quire_stats_shard_device_bytes(quire_stats* stats, int32_t shard_idx, quire_error** error) {
  return get(stats, error, [&](const StatsObject& of) {
    return element_argument(of.cache->metrics.shard_bytes, shard_idx, "shard_idx");
  });
}

int64_t quire_stats_histogram_count(quire_stats* stats, int32_t histogram, quire_error** error) {
  return get(stats, error, [&](const StatsObject& of) { return histogram_of(of, histogram).values.count(); });
}

double quire_stats_histogram_sum(quire_stats* stats, int32_t histogram, quire_error** error) {
  return guard(error, kNaN, [&] {
    const Pinned pinned(stats, "stats");
    const Scaled scaled = histogram_of(*pinned, histogram);
    return scaled.values.sum() * scaled.unit;
  });
}

double quire_stats_histogram_quantile(quire_stats* stats, int32_t histogram, double quantile,
                                      quire_error** error) {
  return guard(error, kNaN, [&] {
    const Pinned pinned(stats, "stats");
    const Scaled scaled = histogram_of(*pinned, histogram);
    if (!(quantile >= 0.0 && quantile <= 1.0)) {
      throw quire::Error(quire::ErrorCode::invalid_argument, "quantile: {} is not in 0 to 1", quantile)
          .at("quantile");
    }
    return scaled.values.quantile(quantile) * scaled.unit;
  });
}

int64_t quire_stats_num_namespaces(quire_stats* stats, quire_error** error) {
  return get(stats, error, [](const StatsObject& of) {
    return of.name_space == nullptr ? of.cache->metrics.name_spaces.size() : 0;
  });
}

int64_t quire_stats_namespace_name(quire_stats* stats, int32_t namespace_idx, char* out_text,
                                   size_t out_capacity, quire_error** error) {
  return guard(error, int64_t{-1}, [&] {
    const Pinned pinned(stats, "stats");
    const OutArgument<char> out(out_text, out_capacity, "out_text");
    const std::string& name = name_space_at(*pinned, namespace_idx).name;
    return out.write({name.data(), name.size()});
  });
}

quire_stats* quire_stats_namespace(quire_stats* stats, int32_t namespace_idx, quire_error** error) {
  return guard(error, static_cast<quire_stats*>(nullptr), [&] {
    const Pinned pinned(stats, "stats");
    return make_handle<quire_stats>(pinned->cache, &name_space_at(*pinned, namespace_idx));
  });
}

int32_t quire_stats_free(quire_stats* handle, quire_error** error) {
  return free_handle(handle, error);
}
