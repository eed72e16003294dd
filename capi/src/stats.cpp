#include <quire/stats.h>

#include "capi/src/guard.h"
#include "capi/src/stats_object.h"

using namespace quire::capi;

namespace {

// Runs `read` on the snapshot.
template <typename Read>
int64_t get(quire_stats* stats, quire_error** error, Read&& read) noexcept {
  return guard(error, int64_t{-1}, [&] { return static_cast<int64_t>(read(*Pinned(stats, "stats"))); });
}

}  // namespace

int64_t quire_stats_page_tokens(quire_stats* stats, quire_error** error) {
  return get(stats, error, [](const StatsObject& of) { return of.page_tokens; });
}

int64_t quire_stats_pages_total(quire_stats* stats, quire_error** error) {
  return get(stats, error, [](const StatsObject& of) { return of.stats.pages.total; });
}

int64_t quire_stats_pages_free(quire_stats* stats, quire_error** error) {
  return get(stats, error, [](const StatsObject& of) { return of.stats.pages.free; });
}

int64_t quire_stats_pages_cached(quire_stats* stats, quire_error** error) {
  return get(stats, error, [](const StatsObject& of) { return of.stats.pages.cached; });
}

int64_t quire_stats_pages_referenced(quire_stats* stats, quire_error** error) {
  return get(stats, error, [](const StatsObject& of) { return of.stats.pages.referenced; });
}

int64_t quire_stats_pages_pinned(quire_stats* stats, quire_error** error) {
  return get(stats, error, [](const StatsObject& of) { return of.stats.pages.pinned; });
}

int64_t quire_stats_pages_evicted(quire_stats* stats, quire_error** error) {
  return get(stats, error, [](const StatsObject& of) { return of.stats.pages_evicted; });
}

int64_t quire_stats_pages_deduplicated(quire_stats* stats, quire_error** error) {
  return get(stats, error, [](const StatsObject& of) { return of.stats.pages_deduplicated; });
}

int64_t quire_stats_jobs_queued(quire_stats* stats, quire_error** error) {
  return get(stats, error, [](const StatsObject& of) { return of.stats.queued_jobs; });
}

int64_t quire_stats_jobs_running(quire_stats* stats, quire_error** error) {
  return get(stats, error, [](const StatsObject& of) { return of.stats.running_jobs; });
}

int64_t quire_stats_jobs_submitted(quire_stats* stats, quire_error** error) {
  return get(stats, error, [](const StatsObject& of) { return of.stats.submitted_jobs; });
}

int64_t quire_stats_jobs_finished(quire_stats* stats, quire_error** error) {
  return get(stats, error, [](const StatsObject& of) { return of.stats.finished_jobs; });
}

int64_t quire_stats_jobs_failed(quire_stats* stats, quire_error** error) {
  return get(stats, error, [](const StatsObject& of) { return of.stats.failed_jobs; });
}

int64_t quire_stats_jobs_cancelled(quire_stats* stats, quire_error** error) {
  return get(stats, error, [](const StatsObject& of) { return of.stats.cancelled_jobs; });
}

int64_t quire_stats_preemptions(quire_stats* stats, quire_error** error) {
  return get(stats, error, [](const StatsObject& of) { return of.stats.preemptions; });
}

int64_t quire_stats_steps(quire_stats* stats, quire_error** error) {
  return get(stats, error, [](const StatsObject& of) { return of.stats.steps; });
}

int64_t quire_stats_prompt_tokens(quire_stats* stats, quire_error** error) {
  return get(stats, error, [](const StatsObject& of) { return of.stats.prompt_tokens_computed; });
}

int64_t quire_stats_cached_tokens(quire_stats* stats, quire_error** error) {
  return get(stats, error, [](const StatsObject& of) { return of.stats.prompt_tokens_cached; });
}

int64_t quire_stats_new_tokens(quire_stats* stats, quire_error** error) {
  return get(stats, error, [](const StatsObject& of) { return of.stats.new_tokens; });
}

int64_t quire_stats_device_bytes(quire_stats* stats, quire_error** error) {
  return get(stats, error, [](const StatsObject& of) { return of.device_bytes; });
}

int32_t quire_stats_free(quire_stats* handle, quire_error** error) {
  return free_handle(handle, error);
}
