/*
 * The figures of a cache at one moment, between two steps, taken together by quire_cache_stats, so that they
 * fit each other: the parts of a whole that this version knows add up to it (pages_free, pages_cached and
 * pages_referenced to pages_total; jobs_queued, jobs_running and jobs_finished to jobs_submitted). A later
 * version may tell further parts apart, and pages of several kinds: pages here are then those of the kind
 * that has the most. The same as text for a monitoring system: quire_cache_metrics.
 *
 * A snapshot has those of each namespace too; quire_stats_namespace gives them as a snapshot of their own.
 *
 * A snapshot never changes, so any number of threads may read one. Each getter of a whole number returns -1
 * on failure.
 */
#ifndef QUIRE_STATS_H
#define QUIRE_STATS_H

#include <quire/base.h>

/* What is counted by size since the cache was made; times are in nanoseconds. */
#define QUIRE_HISTOGRAM_TIME_QUEUED 0         /* submit to the first step, of jobs that had one */
#define QUIRE_HISTOGRAM_TIME_TO_FIRST_TOKEN 1 /* from submit */
#define QUIRE_HISTOGRAM_TIME_BETWEEN_TOKENS 2 /* of one job */
#define QUIRE_HISTOGRAM_CACHED_SHARE 3        /* of a prompt, the part found in the cache: 0 to 1 */
#define QUIRE_HISTOGRAM_BATCH_FILL 4     /* of max_batch_size, the part that had work in a step: 0 to 1 */
#define QUIRE_HISTOGRAM_STEP_SEQUENCES 5 /* sequences in one step */
#define QUIRE_HISTOGRAM_STEP_TOKENS 6    /* tokens computed in one step */

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

/** Pages that left the cache and are kept in host memory. */
QUIRE_API int64_t quire_stats_prefix_host_pages(quire_stats* stats, quire_error** error);

/** Host memory that they take, of quire_cache_options_set_prefix_bytes. */
QUIRE_API int64_t quire_stats_prefix_host_bytes(quire_stats* stats, quire_error** error);

/** Pages of this model in quire_cache_options_set_prefix_directory. */
QUIRE_API int64_t quire_stats_prefix_file_pages(quire_stats* stats, quire_error** error);

/** Bytes of all pages in that directory, whoever wrote them. */
QUIRE_API int64_t quire_stats_prefix_file_bytes(quire_stats* stats, quire_error** error);

/** Pages that came back to the cache since it was made, from host memory or from files. */
QUIRE_API int64_t quire_stats_prefix_pages_restored(quire_stats* stats, quire_error** error);

/** Files of pages that were damaged, cut short or of something else, since the cache was made. */
QUIRE_API int64_t quire_stats_prefix_files_refused(quire_stats* stats, quire_error** error);

/** Jobs that wait for their turn. */
QUIRE_API int64_t quire_stats_jobs_queued(quire_stats* stats, quire_error** error);

/** Jobs that are computed or paused. */
QUIRE_API int64_t quire_stats_jobs_running(quire_stats* stats, quire_error** error);

/** Jobs that the scheduler has taken in since the cache was made. */
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

/** Tokens that speculation proposed since the cache was made. */
QUIRE_API int64_t quire_stats_draft_tokens(quire_stats* stats, quire_error** error);

/** Of them, those that the model agreed with. */
QUIRE_API int64_t quire_stats_accepted_draft_tokens(quire_stats* stats, quire_error** error);

/** How many values one of QUIRE_HISTOGRAM_* has counted. */
QUIRE_API int64_t quire_stats_histogram_count(quire_stats* stats, int32_t histogram, quire_error** error);

/** The sum of those values; by their number, the mean. NaN on failure. */
QUIRE_API double quire_stats_histogram_sum(quire_stats* stats, int32_t histogram, quire_error** error);

/**
 * A size that the q-th part of the values does not exceed, quantile from 0 to 1: the upper bound of the
 * bucket in which that part ends, at most twice too high; the bound of the last bucket where it is beyond
 * all. 0 without values. NaN on failure.
 */
QUIRE_API double quire_stats_histogram_quantile(quire_stats* stats, int32_t histogram, double quantile,
                                                quire_error** error);

/**
 * How many namespaces have figures of their own: the first 64 that had a job. 0 for a snapshot that is of a
 * namespace itself.
 */
QUIRE_API int64_t quire_stats_num_namespaces(quire_stats* stats, quire_error** error);

/**
 * The name of a namespace, namespace_idx from 0. Returns its bytes (base.h: results), -1 on failure;
 * QUIRE_ERROR_INVALID_ARGUMENT for an index out of range, here and below.
 */
QUIRE_API int64_t quire_stats_namespace_name(quire_stats* stats, int32_t namespace_idx, char* out_text,
                                             size_t out_capacity, quire_error** error);

/**
 * The figures of one namespace at the same moment. Its jobs, tokens, preemptions and drafts, its histograms
 * but those of steps, and pages_referenced and pages_pinned are its own; a page that two of its jobs share
 * counts twice. All else is the cache's. The caller owns it. NULL on failure.
 */
QUIRE_API quire_stats* quire_stats_namespace(quire_stats* stats, int32_t namespace_idx, quire_error** error);

/**
 * Device memory of the cache in bytes: pages, and the workspace of a step; of a cache that grows, what it
 * began with.
 */
QUIRE_API int64_t quire_stats_device_bytes(quire_stats* stats, quire_error** error);

/** Into how many shards each layer of the model is cut; each has its part of every page. */
QUIRE_API int32_t quire_stats_num_shards(quire_stats* stats, quire_error** error);

/** Of that device memory, what a shard has, shard_idx from 0. */
QUIRE_API int64_t quire_stats_shard_device_bytes(quire_stats* stats, int32_t shard_idx, quire_error** error);

/** Frees a snapshot. NULL does nothing. Returns 1, or 0 on failure. */
QUIRE_API int32_t quire_stats_free(quire_stats* handle, quire_error** error);

#ifdef __cplusplus
}
#endif

#endif /* QUIRE_STATS_H */
