/*
 * A cache: the object that jobs are submitted to (job.h). It holds the keys and values of all its jobs. It
 * has a thread of its own, the engine thread, which computes many jobs together in each step. No function
 * here computes on the caller's thread. One model may have several caches, which share its weights and
 * compute concurrently.
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
 * Allocates the memory of the cache and starts its thread. `options` are copied; NULL takes every default.
 * All memory that generation needs is allocated here, so that no later step runs out of it, except in an
 * elastic cache (quire_cache_options_set_min_tokens). The caller owns the result. Returns NULL on failure,
 * and then nothing stays allocated. Fails with QUIRE_ERROR_OUT_OF_MEMORY and the bytes needed, with
 * QUIRE_ERROR_INVALID_ARGUMENT naming the option, and with QUIRE_ERROR_UNSUPPORTED for a model that was
 * loaded without weights.
 */
QUIRE_API quire_cache* quire_cache_create(quire_model* model, quire_cache_options* options,
                                          quire_error** error);

/**
 * Frees the handle. Jobs continue: each keeps the cache alive until its own handle is freed. A running call
 * of quire_cache_score or quire_cache_logits finishes. If nothing else keeps the cache alive, this waits
 * for the running step. NULL does nothing. Returns 1, or 0 on failure. Fails with QUIRE_ERROR_REENTRANT
 * inside a callback.
 */
QUIRE_API int32_t quire_cache_free(quire_cache* handle, quire_error** error);

/**
 * Closes the cache: ends every live job with QUIRE_ERROR_CLOSED, wakes every waiting call, fails later
 * calls with the same code, and stops the thread. Waits (base.h) for the running step, but on a hanging
 * device at most quire_cache_options_set_close_timeout_ns. Returns 1 when the cache is closed, otherwise
 * one of QUIRE_WAIT_*, and QUIRE_WAIT_FAILED on failure. After QUIRE_WAIT_TIMEOUT or QUIRE_WAIT_CANCELLED
 * closing continues, and another call can wait for it. Events, results and statistics can still be read.
 * Fails with QUIRE_ERROR_REENTRANT inside a callback.
 */
QUIRE_API int32_t quire_cache_close(quire_cache* cache, int64_t timeout_ns, quire_cancel* cancel,
                                    quire_error** error);

/**
 * Changes quire_cache_options_set_quota of a cache in use. What already exceeds the new limit stays. This
 * function and the three below return 1, or 0 on failure.
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
 * Returns the bytes that quire_cache_create would take on the device of the model, by the same computation
 * but without taking them, or -1 on failure. With QUIRE_KV_AUTO it is the largest possible number.
 * `options` may be NULL. Works for a model loaded with QUIRE_MODEL_SCOPE_METADATA.
 */
QUIRE_API int64_t quire_cache_required_bytes(quire_model* model, quire_cache_options* options,
                                             quire_error** error);

/**
 * Returns the storage format of keys and values: one of QUIRE_KV_*, never QUIRE_KV_AUTO. Returns -1 on
 * failure.
 */
QUIRE_API int32_t quire_cache_kv_format(quire_cache* cache, quire_error** error);

/**
 * Returns the maximum number of tokens of one job, prompt and generated tokens together, or -1 on failure.
 */
QUIRE_API int64_t quire_cache_max_seq_len(quire_cache* cache, quire_error** error);

/**
 * Returns the number of token ids that jobs of this cache may use, or -1 on failure. This is the smaller of
 * quire_model_vocab_size and quire_model_tokenizer_size, and the number of columns of the logits.
 */
QUIRE_API int32_t quire_cache_vocab_size(quire_cache* cache, quire_error** error);

/**
 * Creates an empty queue (queue.h) for jobs of all caches of the same runtime, like quire_queue_create for
 * callers that hold the runtime. The caller owns it. Returns NULL on failure.
 */
QUIRE_API quire_queue* quire_cache_create_queue(quire_cache* cache, quire_error** error);

/**
 * Returns statistics of this moment, consistent with each other (stats.h). The caller owns them. Returns
 * NULL on failure.
 */
QUIRE_API quire_stats* quire_cache_stats(quire_cache* cache, quire_error** error);

/**
 * Writes counters and histograms since the creation of the cache to out_text, in the Prometheus text
 * format. `text` is the name of the cache in them (label "cache"). Returns its length in bytes, or -1 on
 * failure. The length grows with time: pass a larger buffer than the queried size.
 */
QUIRE_API int64_t quire_cache_metrics(quire_cache* cache, const char* text, size_t text_len, char* out_text,
                                      size_t out_capacity, quire_error** error);

/**
 * Returns the number of prompt tokens of `request` that a job would find in the cache now, in the namespace
 * of the request, or -1 on failure. Only the prompt and the namespace of the request are read. Waits
 * (base.h) for at most one step.
 */
QUIRE_API int64_t quire_cache_query(quire_cache* cache, quire_job_request* request, int64_t timeout_ns,
                                    quire_cancel* cancel, quire_error** error);

/**
 * Pins the cached pages of the prompt of `request`, in its namespace, for time_to_live_ns, or until
 * quire_cache_unpin if that is 0. Only the prompt and the namespace of the request are read. Compute the
 * pages first with a QUIRE_JOB_KIND_WARM job. Waits (base.h) for at most one step. Returns the id of the
 * pin, a number above 0, or -1 on failure. Fails with QUIRE_ERROR_NOT_FOUND if no whole page is cached, and
 * with QUIRE_ERROR_QUOTA if too many pages are pinned already. A page with several pins counts once.
 */
QUIRE_API int64_t quire_cache_pin(quire_cache* cache, quire_job_request* request, int64_t time_to_live_ns,
                                  int64_t timeout_ns, quire_cancel* cancel, quire_error** error);

/** Ends a pin. Does nothing if it has already ended. Returns 1, or 0 on failure. */
QUIRE_API int32_t quire_cache_unpin(quire_cache* cache, int64_t pin, quire_error** error);

/**
 * Subscribes `queue`, of the same runtime, to QUIRE_EVENT_PAGE events. They report changes of the whole
 * pages of the cache that a prompt can find, and of those that moved to host memory or files. The first
 * events are QUIRE_PAGE_CLEARED and a QUIRE_PAGE_STORED for each page that exists now, each page after the
 * one it continues. The events end with the queue or with the cache. `user_data` identifies the cache in
 * the events (quire_event_user_data).
 *
 * The engine thread does not wait for the reader. If more than 4096 further events are waiting, some are
 * lost, and quire_event_page_number skips. After a loss, or to start late, subscribe again with the same
 * queue: the events begin anew. Pages computed with an adapter emit no events. Returns 1, or 0 on failure.
 * Fails with QUIRE_ERROR_CLOSED after quire_cache_close.
 */
QUIRE_API int32_t quire_cache_follow_pages(quire_cache* cache, quire_queue* queue, uint64_t user_data,
                                           quire_error** error);

/**
 * Subscribes like quire_cache_follow_pages, to the pages of one namespace only. Returns 1, or 0 on failure.
 */
QUIRE_API int32_t quire_cache_follow_namespace_pages(quire_cache* cache, const char* text, size_t text_len,
                                                     quire_queue* queue, uint64_t user_data,
                                                     quire_error** error);

/**
 * Computes the log-probabilities of the prompt of `request`, like QUIRE_JOB_KIND_SCORE jobs, and writes
 * them to out_values: value i is the natural logarithm of the probability of token i after the tokens
 * before it. The tokens are cut into windows of window_tokens, each a job of its own; 0 means a single
 * window. The first token of a window has no predecessor, and its value is NaN. A window must fit into
 * quire_cache_max_seq_len. The request's namespace, priority and other settings of a score job apply; a
 * request with a queue is refused.
 *
 * Waits (base.h) for the result, which is computed together with other jobs. If the wait ends early, so do
 * the jobs. Returns the number of tokens, or -1 on failure. A query of the size (base.h, Results) computes
 * nothing.
 */
QUIRE_API int64_t quire_cache_score(quire_cache* cache, quire_job_request* request, int64_t window_tokens,
                                    int64_t timeout_ns, quire_cancel* cancel, float* out_values,
                                    size_t out_capacity, quire_error** error);

/**
 * Computes the raw logits of the prompt of `request` and writes them to out_values: [tokens, vocab] floats,
 * with vocab = quire_cache_vocab_size. Row i predicts the token after token i. Otherwise like
 * quire_cache_score. Returns the number of values, tokens * vocab, or -1 on failure. A query of the size
 * computes nothing.
 */
QUIRE_API int64_t quire_cache_logits(quire_cache* cache, quire_job_request* request, int64_t timeout_ns,
                                     quire_cancel* cancel, float* out_values, size_t out_capacity,
                                     quire_error** error);

#ifdef __cplusplus
}
#endif

#endif /* QUIRE_CACHE_H */
