/*
 * A cache: what jobs are submitted to (job.h). It has the memory for the keys and values of all its jobs, and
 * a thread of its own, the engine, which computes them step by step, many in one step: nothing that is called
 * here computes on the caller's thread. One model may have several caches, which share its weights and
 * compute beside each other.
 *
 * Any number of threads may use one cache at the same time.
 */
#ifndef QUIRE_CACHE_H
#define QUIRE_CACHE_H

#include <quire/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Takes the memory and starts the thread. `options` are copied; NULL takes every default. With the options of
 * today all memory that generation needs is taken here, so that no later step runs out of it; one that lets a
 * cache grow says so. The caller owns the result. NULL on
 * failure: QUIRE_ERROR_OUT_OF_MEMORY with the bytes needed, QUIRE_ERROR_INVALID_ARGUMENT naming the option,
 * QUIRE_ERROR_UNSUPPORTED for a model that was loaded without weights. Nothing stays on failure.
 */
QUIRE_API quire_cache* quire_cache_create(quire_model* model, quire_cache_options* options,
                                          quire_error** error);

/**
 * Frees the handle. Jobs run on: each keeps the cache alive until its own handle is freed. A call that waits
 * in quire_cache_score or quire_cache_logits finishes. Where nothing else keeps the cache alive, this waits
 * for the step in progress. NULL does nothing. Returns 1, or 0 on failure; QUIRE_ERROR_REENTRANT inside a
 * callback.
 */
QUIRE_API int32_t quire_cache_free(quire_cache* handle, quire_error** error);

/**
 * Ends every live job with QUIRE_ERROR_CLOSED, wakes every waiting call, refuses what comes later with the
 * same code, and stops the thread of the cache. Waits (base.h) for the step in progress, where a device hangs
 * no longer than quire_cache_options_set_close_timeout_ns. 1: it is closed; after QUIRE_WAIT_TIMEOUT or
 * QUIRE_WAIT_CANCELLED it closes all the same, and another call waits on. Events, results and figures can
 * still be read. QUIRE_WAIT_FAILED on failure; QUIRE_ERROR_REENTRANT inside a callback.
 */
QUIRE_API int32_t quire_cache_close(quire_cache* cache, int64_t timeout_ns, quire_cancel* cancel,
                                    quire_error** error);

/**
 * Changes quire_cache_options_set_quota of a cache in use; what is beyond the new limit already stays.
 * Returns 1, or 0 on failure, here and below.
 */
QUIRE_API int32_t quire_cache_set_quota(quire_cache* cache, int32_t quota, int32_t limit,
                                        quire_error** error);

/** Changes quire_cache_options_set_namespace_quota of a cache in use. */
QUIRE_API int32_t quire_cache_set_namespace_quota(quire_cache* cache, const char* text, size_t text_len,
                                                  int32_t quota, int32_t limit, quire_error** error);

/** Changes quire_cache_options_set_namespace_weight of a cache in use, from the next step on. */
QUIRE_API int32_t quire_cache_set_namespace_weight(quire_cache* cache, const char* text, size_t text_len,
                                                   double weight, quire_error** error);

/** Changes quire_cache_options_set_device_weight of a cache in use, from the next step on. */
QUIRE_API int32_t quire_cache_set_device_weight(quire_cache* cache, double weight, quire_error** error);

/**
 * How many bytes quire_cache_create would take on the device of the model, by the same arithmetic, without
 * taking them: with QUIRE_KV_AUTO the most that it may be. `options` may be NULL. Works for a model loaded
 * with QUIRE_MODEL_SCOPE_METADATA. -1 on failure.
 */
QUIRE_API int64_t quire_cache_required_bytes(quire_model* model, quire_cache_options* options,
                                             quire_error** error);

/** How keys and values are stored: one of QUIRE_KV_*, never QUIRE_KV_AUTO; -1 on failure. */
QUIRE_API int32_t quire_cache_kv_format(quire_cache* cache, quire_error** error);

/** Tokens that one job may have, prompt and generated ones together; -1 on failure. */
QUIRE_API int64_t quire_cache_max_seq_len(quire_cache* cache, quire_error** error);

/**
 * How many token ids jobs of this cache may use: the columns of their logits. The smaller of
 * quire_model_vocab_size and quire_model_tokenizer_size. -1 on failure.
 */
QUIRE_API int32_t quire_cache_vocab_size(quire_cache* cache, quire_error** error);

/**
 * Makes an empty queue (queue.h) for jobs of all caches of the runtime of this one, as quire_queue_create
 * does for those that have the runtime. The caller owns it. NULL on failure.
 */
QUIRE_API quire_queue* quire_cache_create_queue(quire_cache* cache, quire_error** error);

/** Figures of this moment, consistent with each other (stats.h). The caller owns them. NULL on failure. */
QUIRE_API quire_stats* quire_cache_stats(quire_cache* cache, quire_error** error);

/**
 * Counters and histograms since the cache was made, in the Prometheus text format. `text` names the cache in
 * it (label "cache"). Returns its bytes, which grow with time: pass room to spare. -1 on failure.
 */
QUIRE_API int64_t quire_cache_metrics(quire_cache* cache, const char* text, size_t text_len, char* out_text,
                                      size_t out_capacity, quire_error** error);

/**
 * How many tokens of the prompt of `request`, in its namespace, a job would find in the cache now. Of the
 * request of a job to come prompt and namespace are read, here and below. Waits (base.h) for one step at
 * most. -1 on failure.
 */
QUIRE_API int64_t quire_cache_query(quire_cache* cache, quire_job_request* request, int64_t timeout_ns,
                                    quire_cancel* cancel, quire_error** error);

/**
 * Keeps what the cache has of the prompt of `request`, in its namespace, for time_to_live_ns, or until
 * quire_cache_unpin where that is 0. Compute it first with a QUIRE_JOB_KIND_WARM job. Waits as
 * quire_cache_query does. Returns a number above 0 that stands for the pin; -1 on failure:
 * QUIRE_ERROR_NOT_FOUND where no whole page is cached, QUIRE_ERROR_QUOTA where too much is kept already. A
 * page that several pins keep counts once.
 */
QUIRE_API int64_t quire_cache_pin(quire_cache* cache, quire_job_request* request, int64_t time_to_live_ns,
                                  int64_t timeout_ns, quire_cancel* cancel, quire_error** error);

/** Ends a pin; does nothing to one that is over. Returns 1, or 0 on failure. */
QUIRE_API int32_t quire_cache_unpin(quire_cache* cache, int64_t pin, quire_error** error);

/**
 * From now on `queue`, of the same runtime, gets QUIRE_EVENT_PAGE events: what becomes of the whole pages of
 * the cache that a prompt can find, and of those that left it for host memory or files. They begin with
 * QUIRE_PAGE_CLEARED and a QUIRE_PAGE_STORED for each page that is there now, a page after the one that it
 * continues, and end with the queue or with the cache. `user_data` tells caches apart
 * (quire_event_user_data). The engine waits for no reader: of more than 4096 further events that nobody took
 * some are lost, and quire_event_page_number jumps. Whoever meets that, or comes late, follows again with the
 * same queue: everything begins anew. Pages computed with an adapter are not told. Returns 1, or 0 on
 * failure, QUIRE_ERROR_CLOSED after quire_cache_close.
 */
QUIRE_API int32_t quire_cache_follow_pages(quire_cache* cache, quire_queue* queue, uint64_t user_data,
                                           quire_error** error);

/** The same of the pages of one namespace alone. Returns 1, or 0 on failure. */
QUIRE_API int32_t quire_cache_follow_namespace_pages(quire_cache* cache, const char* text, size_t text_len,
                                                     quire_queue* queue, uint64_t user_data,
                                                     quire_error** error);

/**
 * How likely the prompt of `request` is, as QUIRE_JOB_KIND_SCORE jobs tell it: out_values[i] is the natural
 * logarithm of the probability of its token i after the tokens before it. The tokens are cut into windows of
 * window_tokens, each a job of its own; 0 is one window of all. The first token of a window follows nothing:
 * its value is NaN. A window must fit quire_cache_max_seq_len. The request's namespace, priority and other
 * settings of a score count too; its queue does not and is refused.
 *
 * Waits (base.h) for the result, which is computed beside other jobs; where the wait ends early the jobs do
 * too. Returns the number of tokens, the size of the result (base.h: results; a query of the size computes
 * nothing), -1 on failure.
 */
QUIRE_API int64_t quire_cache_score(quire_cache* cache, quire_job_request* request, int64_t window_tokens,
                                    int64_t timeout_ns, quire_cancel* cancel, float* out_values,
                                    size_t out_capacity, quire_error** error);

/**
 * The raw logits of the prompt of `request`: [tokens, vocab] floats, row i for what follows the tokens up to
 * i, vocab = quire_cache_vocab_size. Otherwise as quire_cache_score. Returns tokens * vocab, the size of the
 * result (a query of the size computes nothing), -1 on failure.
 */
QUIRE_API int64_t quire_cache_logits(quire_cache* cache, quire_job_request* request, int64_t timeout_ns,
                                     quire_cancel* cancel, float* out_values, size_t out_capacity,
                                     quire_error** error);

#ifdef __cplusplus
}
#endif

#endif /* QUIRE_CACHE_H */
