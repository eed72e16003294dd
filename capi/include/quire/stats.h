/*
 * Statistics of a cache at one moment between two steps, read together by quire_cache_stats so that they
 * are consistent. The parts add up to the whole: pages_free, pages_cached and pages_referenced to
 * pages_total; jobs_queued, jobs_running and jobs_finished to jobs_submitted. A later version may add
 * further parts, and pages of several kinds; the pages here are then those of the largest kind.
 * quire_cache_metrics gives the same statistics as text for a monitoring system.
 *
 * A snapshot includes each namespace; quire_stats_namespace returns one as a snapshot of its own.
 *
 * A snapshot never changes, so any number of threads may read one. Each integer getter returns -1 on
 * failure.
 */
#ifndef QUIRE_STATS_H
#define QUIRE_STATS_H

#include <quire/base.h>

/* Histograms since the creation of the cache; times are in nanoseconds. */
#define QUIRE_HISTOGRAM_TIME_QUEUED 0         /* from submit to the first step, for jobs that had one */
#define QUIRE_HISTOGRAM_TIME_TO_FIRST_TOKEN 1 /* from submit to the first token */
#define QUIRE_HISTOGRAM_TIME_BETWEEN_TOKENS 2 /* between two tokens of one job */
#define QUIRE_HISTOGRAM_CACHED_SHARE 3        /* part of a prompt that was found in the cache: 0 to 1 */
#define QUIRE_HISTOGRAM_BATCH_FILL 4          /* part of max_batch_size that had work in a step: 0 to 1 */
#define QUIRE_HISTOGRAM_STEP_SEQUENCES 5      /* sequences in one step */
#define QUIRE_HISTOGRAM_STEP_TOKENS 6         /* tokens computed in one step */

#ifdef __cplusplus
extern "C" {
#endif

/** Returns the number of tokens that a page holds. */
QUIRE_API int64_t quire_stats_page_tokens(quire_stats* stats, quire_error** error);

/** Returns the number of pages of the cache. */
QUIRE_API int64_t quire_stats_pages_total(quire_stats* stats, quire_error** error);

/** Returns the number of empty pages. */
QUIRE_API int64_t quire_stats_pages_free(quire_stats* stats, quire_error** error);

/**
 * Returns the number of pages that no job uses but that may serve a later prompt; they are evicted when
 * memory is needed.
 */
QUIRE_API int64_t quire_stats_pages_cached(quire_stats* stats, quire_error** error);

/** Returns the number of pages in use by a job or kept by quire_cache_pin. */
QUIRE_API int64_t quire_stats_pages_referenced(quire_stats* stats, quire_error** error);

/** Returns the number of referenced pages that quire_cache_pin keeps. */
QUIRE_API int64_t quire_stats_pages_pinned(quire_stats* stats, quire_error** error);

/** Returns the number of cached pages evicted since the creation of the cache. */
QUIRE_API int64_t quire_stats_pages_evicted(quire_stats* stats, quire_error** error);

/**
 * Returns the number of pages found to equal another page and then shared, since the creation of the cache.
 */
QUIRE_API int64_t quire_stats_pages_deduplicated(quire_stats* stats, quire_error** error);

/** Returns the number of evicted pages that are kept in host memory. */
QUIRE_API int64_t quire_stats_prefix_host_pages(quire_stats* stats, quire_error** error);

/**
 * Returns the bytes of host memory that those pages take, limited by quire_cache_options_set_prefix_bytes.
 */
QUIRE_API int64_t quire_stats_prefix_host_bytes(quire_stats* stats, quire_error** error);

/** Returns the number of pages of this model in quire_cache_options_set_prefix_directory. */
QUIRE_API int64_t quire_stats_prefix_file_pages(quire_stats* stats, quire_error** error);

/** Returns the bytes of all pages in that directory, including those of other processes. */
QUIRE_API int64_t quire_stats_prefix_file_bytes(quire_stats* stats, quire_error** error);

/** Returns the number of pages restored from host memory or files since the creation of the cache. */
QUIRE_API int64_t quire_stats_prefix_pages_restored(quire_stats* stats, quire_error** error);

/**
 * Returns the number of page files rejected since the creation of the cache because they were damaged,
 * truncated or did not match.
 */
QUIRE_API int64_t quire_stats_prefix_files_refused(quire_stats* stats, quire_error** error);

/** Returns the number of waiting jobs. */
QUIRE_API int64_t quire_stats_jobs_queued(quire_stats* stats, quire_error** error);

/** Returns the number of jobs that are running or paused. */
QUIRE_API int64_t quire_stats_jobs_running(quire_stats* stats, quire_error** error);

/** Returns the number of jobs that the scheduler has accepted since the creation of the cache. */
QUIRE_API int64_t quire_stats_jobs_submitted(quire_stats* stats, quire_error** error);

/** Returns the number of jobs that have ended, for any reason. */
QUIRE_API int64_t quire_stats_jobs_finished(quire_stats* stats, quire_error** error);

/** Returns the number of finished jobs that failed. */
QUIRE_API int64_t quire_stats_jobs_failed(quire_stats* stats, quire_error** error);

/** Returns the number of finished jobs that were cancelled. */
QUIRE_API int64_t quire_stats_jobs_cancelled(quire_stats* stats, quire_error** error);

/** Returns how often a job was preempted to free memory for others. */
QUIRE_API int64_t quire_stats_preemptions(quire_stats* stats, quire_error** error);

/** Returns the number of scheduler steps since the creation of the cache. */
QUIRE_API int64_t quire_stats_steps(quire_stats* stats, quire_error** error);

/**
 * Returns how often tokens chose an expert in host memory that the card had
 * (quire_cache_options_set_card_expert_bytes), since the creation of the cache.
 */
QUIRE_API int64_t quire_stats_card_expert_hits(quire_stats* stats, quire_error** error);

/** Returns how often they chose one that it did not have; 0 if no expert can stay on a card. */
QUIRE_API int64_t quire_stats_card_expert_misses(quire_stats* stats, quire_error** error);

/** Returns the number of prompt tokens computed since the creation of the cache. */
QUIRE_API int64_t quire_stats_prompt_tokens(quire_stats* stats, quire_error** error);

/** Returns the number of prompt tokens found in the cache instead of computed. */
QUIRE_API int64_t quire_stats_cached_tokens(quire_stats* stats, quire_error** error);

/** Returns the number of tokens generated since the creation of the cache. */
QUIRE_API int64_t quire_stats_new_tokens(quire_stats* stats, quire_error** error);

/**
 * Returns the number of draft tokens that speculative decoding proposed since the creation of the cache.
 */
QUIRE_API int64_t quire_stats_draft_tokens(quire_stats* stats, quire_error** error);

/** Returns the number of those draft tokens that were accepted. */
QUIRE_API int64_t quire_stats_accepted_draft_tokens(quire_stats* stats, quire_error** error);

/**
 * Writes the number of accepted draft tokens at each position among those of a step to out_counts, the first
 * position first. Returns the number of positions, 0 if no draft tokens were proposed, or -1 on failure.
 */
QUIRE_API int64_t quire_stats_accepted_by_position(quire_stats* stats, int64_t* out_counts,
                                                   size_t out_capacity, quire_error** error);

/** Returns the count of values in one of QUIRE_HISTOGRAM_*. */
QUIRE_API int64_t quire_stats_histogram_count(quire_stats* stats, int32_t histogram, quire_error** error);

/** Returns the sum of the values, or NaN on failure. Divided by the number of values, it is the mean. */
QUIRE_API double quire_stats_histogram_sum(quire_stats* stats, int32_t histogram, quire_error** error);

/**
 * Returns an estimate of a quantile of the values, or NaN on failure. `quantile` is 0 to 1. The result is
 * the upper bound of the bucket that contains the quantile, at most twice too high, or the bound of the
 * last bucket if the quantile lies beyond it. Returns 0 if there are no values.
 */
QUIRE_API double quire_stats_histogram_quantile(quire_stats* stats, int32_t histogram, double quantile,
                                                quire_error** error);

/**
 * Returns the number of namespaces with statistics of their own: the first 64 that had a job. It is 0 in
 * the snapshot of a namespace.
 */
QUIRE_API int64_t quire_stats_num_namespaces(quire_stats* stats, quire_error** error);

/**
 * Writes the name of a namespace to out_text; namespace_idx counts from 0. Returns its length in bytes
 * (base.h, Results), or -1 on failure. This function and those below fail with QUIRE_ERROR_INVALID_ARGUMENT
 * if the index is out of range.
 */
QUIRE_API int64_t quire_stats_namespace_name(quire_stats* stats, int32_t namespace_idx, char* out_text,
                                             size_t out_capacity, quire_error** error);

/**
 * Returns the statistics of one namespace at the same moment. These values are its own: jobs, tokens,
 * preemptions, draft tokens, histograms except those of steps, pages_referenced and pages_pinned. A page
 * shared by two of its jobs counts twice. All other values are those of the cache. The caller owns the
 * result. Returns NULL on failure.
 */
QUIRE_API quire_stats* quire_stats_namespace(quire_stats* stats, int32_t namespace_idx, quire_error** error);

/**
 * Returns the device memory of the cache in bytes: pages, and the workspace of a step. For an elastic cache
 * it is the initial size.
 */
QUIRE_API int64_t quire_stats_device_bytes(quire_stats* stats, quire_error** error);

/**
 * Returns the number of shards that each layer of the model is cut into. Each shard has its part of every
 * page.
 */
QUIRE_API int32_t quire_stats_num_shards(quire_stats* stats, quire_error** error);

/** Returns the device memory of one shard of the cache; shard_idx counts from 0. */
QUIRE_API int64_t quire_stats_shard_device_bytes(quire_stats* stats, int32_t shard_idx, quire_error** error);

/** Frees a snapshot. NULL does nothing. Returns 1, or 0 on failure. */
QUIRE_API int32_t quire_stats_free(quire_stats* handle, quire_error** error);

#ifdef __cplusplus
}
#endif

#endif /* QUIRE_STATS_H */
