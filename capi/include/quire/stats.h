/*
 * The figures of a cache at one moment, taken together by quire_cache_stats: pages_free + pages_cached +
 * pages_referenced = pages_total, always.
 *
 * A snapshot never changes, so any number of threads may read one. Each getter returns -1 on
 * failure.
 */
#ifndef QUIRE_STATS_H
#define QUIRE_STATS_H

#include <quire/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Tokens that a page holds. */
QUIRE_API int64_t quire_stats_page_tokens(quire_stats* stats, quire_error** error);

/** Pages of the cache. */
QUIRE_API int64_t quire_stats_pages_total(quire_stats* stats, quire_error** error);

/** Pages that hold nothing. */
QUIRE_API int64_t quire_stats_pages_free(quire_stats* stats, quire_error** error);

/** Pages that no job uses but whose tokens may serve a later prompt; given up as room is needed. */
QUIRE_API int64_t quire_stats_pages_cached(quire_stats* stats, quire_error** error);

/** Pages in use by a job, or kept by quire_cache_pin. */
QUIRE_API int64_t quire_stats_pages_referenced(quire_stats* stats, quire_error** error);

/** Of the referenced pages, those that quire_cache_pin keeps. */
QUIRE_API int64_t quire_stats_pages_pinned(quire_stats* stats, quire_error** error);

/** Cached pages given up for others since the cache was made. */
QUIRE_API int64_t quire_stats_pages_evicted(quire_stats* stats, quire_error** error);

/** Pages found to hold what another page held, and shared, since the cache was made. */
QUIRE_API int64_t quire_stats_pages_deduplicated(quire_stats* stats, quire_error** error);

/** Jobs that wait for their turn. */
QUIRE_API int64_t quire_stats_jobs_queued(quire_stats* stats, quire_error** error);

/** Jobs that are computed or paused. */
QUIRE_API int64_t quire_stats_jobs_running(quire_stats* stats, quire_error** error);

/** Jobs accepted since the cache was made. */
QUIRE_API int64_t quire_stats_jobs_submitted(quire_stats* stats, quire_error** error);

/** Jobs that are over, in any way. */
QUIRE_API int64_t quire_stats_jobs_finished(quire_stats* stats, quire_error** error);

/** Of them, those that failed. */
QUIRE_API int64_t quire_stats_jobs_failed(quire_stats* stats, quire_error** error);

/** Of them, those that were cancelled. */
QUIRE_API int64_t quire_stats_jobs_cancelled(quire_stats* stats, quire_error** error);

/** How often a job had to give its room to others. */
QUIRE_API int64_t quire_stats_preemptions(quire_stats* stats, quire_error** error);

/** Steps of the scheduler since the cache was made. */
QUIRE_API int64_t quire_stats_steps(quire_stats* stats, quire_error** error);

/** Prompt tokens computed since the cache was made. */
QUIRE_API int64_t quire_stats_prompt_tokens(quire_stats* stats, quire_error** error);

/** Prompt tokens found in the cache instead. */
QUIRE_API int64_t quire_stats_cached_tokens(quire_stats* stats, quire_error** error);

/** Tokens generated since the cache was made. */
QUIRE_API int64_t quire_stats_new_tokens(quire_stats* stats, quire_error** error);

/** Device memory of the cache in bytes: pages, and the workspace of a step. */
QUIRE_API int64_t quire_stats_device_bytes(quire_stats* stats, quire_error** error);

/** Frees a snapshot. NULL does nothing. Returns 1, or 0 on failure. */
QUIRE_API int32_t quire_stats_free(quire_stats* handle, quire_error** error);

#ifdef __cplusplus
}
#endif

#endif /* QUIRE_STATS_H */
