/*
 * A job: a piece of work that is submitted, emits events, and can be cancelled from any thread. The engine
 * thread of its cache does the work, batched with other jobs. Only functions with a timeout wait for it.
 *
 * Any number of threads may use one job at the same time. If several threads poll, each event is delivered
 * to exactly one of them. Freeing the last handle of a job cancels it.
 */
#ifndef QUIRE_JOB_H
#define QUIRE_JOB_H

#include <quire/base.h>

/* States of a job. A later version may add states. */
#define QUIRE_JOB_STATE_QUEUED 0     /* waiting to run, at first or after it was preempted */
#define QUIRE_JOB_STATE_PROMPT 1     /* its prompt is being computed */
#define QUIRE_JOB_STATE_GENERATING 2 /* it generates tokens */
#define QUIRE_JOB_STATE_PAUSED 3     /* by quire_job_pause, or because its events are not taken */
#define QUIRE_JOB_STATE_FINISHED 4   /* ended, for any reason */

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Submits a copy of the request to a cache. Text is tokenized in this call, on the caller's thread. Does
 * not wait. The caller owns the job. Returns NULL on failure; a refused job leaves nothing behind and emits
 * no event.
 *
 * Everything that can be checked in advance is checked here. Fails with QUIRE_ERROR_INVALID_ARGUMENT naming
 * the field, also for a setting that does not apply to the kind of the job. Fails with QUIRE_ERROR_ENCODING
 * if the prompt is not UTF-8. Fails with QUIRE_ERROR_TOO_LARGE if the job can never fit; the message has
 * the needed and the available size. Fails with QUIRE_ERROR_CAPACITY if the queue of the cache is full, and
 * with QUIRE_ERROR_QUOTA if that of its namespace is; a later try may succeed. Fails with
 * QUIRE_ERROR_DEADLINE_TOO_SHORT, QUIRE_ERROR_CLOSED or QUIRE_ERROR_DEVICE_LOST.
 */
QUIRE_API quire_job* quire_job_submit(quire_cache* cache, quire_job_request* request, quire_error** error);

/**
 * Submits num_jobs (1 or more) copies of the request, all or none, as completions of one prompt, which is
 * computed once. Their seeds count up from the seed of the request, and their user data by
 * quire_job_request_set_user_data_step; everything else is equal. quire_event_index returns the completion
 * of an event, even before this call has returned. Writes the jobs to out_jobs, [num_jobs]; the caller owns
 * each. Returns 1, or 0 on failure. Fails like quire_job_submit, and with QUIRE_ERROR_TOO_LARGE if the
 * queue of the cache or the quota of the namespace can never hold so many jobs.
 */
QUIRE_API int32_t quire_job_submit_many(quire_cache* cache, quire_job_request* request, quire_job** out_jobs,
                                        size_t num_jobs, quire_error** error);

/**
 * Waits for the next event and takes it (base.h, Waits). Returns 1 and writes the event to *out_event; the
 * caller owns it (quire_event_free). Otherwise *out_event is NULL and one of QUIRE_WAIT_* is returned.
 * QUIRE_WAIT_END means that the final event was taken, by this thread or another. If another thread frees
 * the job during this call, the call ends as for a cancelled job.
 */
QUIRE_API int32_t quire_job_poll(quire_job* job, int64_t timeout_ns, quire_cancel* cancel,
                                 quire_event** out_event, quire_error** error);

/**
 * Waits for an event and takes up to max_events (1 or more) available events. Writes them to
 * out_events, [max_events]; the caller owns each. Returns their number, otherwise one of QUIRE_WAIT_* like
 * quire_job_poll.
 */
QUIRE_API int64_t quire_job_drain(quire_job* job, int64_t timeout_ns, quire_cancel* cancel,
                                  quire_event** out_events, size_t max_events, quire_error** error);

/**
 * Waits for the job to end, without taking events. Returns 1 if the job has ended. Otherwise returns
 * QUIRE_WAIT_TIMEOUT, QUIRE_WAIT_CANCELLED (the wait was cancelled, not the job) or QUIRE_WAIT_FAILED.
 */
QUIRE_API int32_t quire_job_wait(quire_job* job, int64_t timeout_ns, quire_cancel* cancel,
                                 quire_error** error);

/**
 * Cancels the job: it ends within one step, or one chunk of its prompt, with QUIRE_FINISH_CANCELLED.
 * Earlier events can still be taken. Does not wait. Does nothing if the job has ended, and may be called
 * again. Returns 1, or 0 on failure.
 */
QUIRE_API int32_t quire_job_cancel(quire_job* job, quire_error** error);

/**
 * Frees the handle. A job that has not ended is cancelled. Events that were not taken are discarded, also
 * from its queue. Never waits, so a finalizer may call it. NULL does nothing. Returns 1, or 0 on failure.
 */
QUIRE_API int32_t quire_job_free(quire_job* handle, quire_error** error);

/**
 * Pauses the job: it keeps its pages in the cache and takes part in no step until quire_job_resume. If
 * memory runs short, paused jobs lose their pages first, and compute them again when they resume. Does
 * nothing if the job has ended. Returns 1, or 0 on failure.
 */
QUIRE_API int32_t quire_job_pause(quire_job* job, quire_error** error);

/** Resumes a paused job. Returns 1, or 0 on failure. */
QUIRE_API int32_t quire_job_resume(quire_job* job, quire_error** error);

/** Changes the priority of the job (quire_job_request_set_priority). Returns 1, or 0 on failure. */
QUIRE_API int32_t quire_job_set_priority(quire_job* job, int32_t priority, quire_error** error);

/**
 * Takes back all generated tokens but the first num_new_tokens; the job continues from there. If earlier
 * events contain more tokens, the event QUIRE_EVENT_REWIND reports what is kept. Changes nothing if there
 * are no more tokens than that, or if the job has ended. Returns 1, or 0 on failure.
 */
QUIRE_API int32_t quire_job_rewind(quire_job* job, int32_t num_new_tokens, quire_error** error);

/**
 * Creates a second job that continues from the tokens of this one, between two steps. Both share everything
 * computed so far. `request` may set only the seed, the user data, the queue and max_new_tokens, counted
 * from the fork. Without a seed the fork takes that of the job, and therefore draws the same tokens. Token
 * positions in the events of the fork count from 0. The caller owns the new job. Returns NULL on failure.
 *
 * Fails like quire_job_submit. Also fails with QUIRE_ERROR_INVALID_ARGUMENT if another setting of the
 * request is set, or for a job that generates nothing. If this job has ended before the fork takes place,
 * the fork ends with QUIRE_ERROR_CLOSED. If its pages can never fit, it ends with QUIRE_ERROR_TOO_LARGE.
 */
QUIRE_API quire_job* quire_job_fork(quire_job* job, quire_job_request* request, quire_error** error);

/**
 * Returns the id of the job, unique for the lifetime of the process and named in log lines, or -1 on
 * failure.
 */
QUIRE_API int64_t quire_job_id(quire_job* job, quire_error** error);

/** Returns the seed of the job's sampling, also if the request left it to chance, or 0 on failure. */
QUIRE_API uint64_t quire_job_seed(quire_job* job, quire_error** error);

/** Returns one of QUIRE_JOB_STATE_*, or -1 on failure. */
QUIRE_API int32_t quire_job_state(quire_job* job, quire_error** error);

/**
 * Returns why the job ended, one of QUIRE_FINISH_* (event.h), or -1 on failure. Returns QUIRE_FINISH_NONE
 * while the job has not ended.
 */
QUIRE_API int32_t quire_job_finish_reason(quire_job* job, quire_error** error);

/**
 * Returns the stop token that ended the job, or -1 if none did. Also returns -1, with an error, on failure.
 */
QUIRE_API int32_t quire_job_stop_token(quire_job* job, quire_error** error);

/**
 * Writes the stop string that ended the job to out_text; it is empty if none did. Returns its length in
 * bytes (base.h, Results), or -1 on failure.
 */
QUIRE_API int64_t quire_job_stop_text(quire_job* job, char* out_text, size_t out_capacity,
                                      quire_error** error);

/**
 * Returns the code of the failure that ended the job, one of QUIRE_ERROR_*, or QUIRE_ERROR_OK if there was
 * none. Returns -1 on failure.
 */
QUIRE_API int32_t quire_job_error_code(quire_job* job, quire_error** error);

/**
 * Writes one line for a person to out_text: why the job waits, what it does, or how it ended. It has
 * numbers but no text of the job. Returns its length in bytes, or -1 on failure. The length changes with
 * time: pass a larger buffer than the queried size.
 */
QUIRE_API int64_t quire_job_explain(quire_job* job, char* out_text, size_t out_capacity, quire_error** error);

/** Returns the number of tokens of the prompt, including those added by the tokenizer, or -1 on failure. */
QUIRE_API int64_t quire_job_prompt_tokens(quire_job* job, quire_error** error);

/**
 * Returns the number of prompt tokens that were found in the cache and not computed again, or -1 on
 * failure.
 */
QUIRE_API int64_t quire_job_cached_tokens(quire_job* job, quire_error** error);

/** Returns the number of tokens generated so far, including a stop token, or -1 on failure. */
QUIRE_API int64_t quire_job_new_tokens(quire_job* job, quire_error** error);

/** Returns the number of draft tokens that speculative decoding has proposed so far, or -1 on failure. */
QUIRE_API int64_t quire_job_draft_tokens(quire_job* job, quire_error** error);

/** Returns the number of draft tokens that were accepted, or -1 on failure. */
QUIRE_API int64_t quire_job_accepted_draft_tokens(quire_job* job, quire_error** error);

/**
 * Writes the number of accepted draft tokens at each position among those of a step to out_counts, the first
 * position first. Returns the number of positions, 0 for a job without draft tokens, or -1 on failure.
 */
QUIRE_API int64_t quire_job_accepted_by_position(quire_job* job, int64_t* out_counts, size_t out_capacity,
                                                 quire_error** error);

/**
 * Returns how often the job was preempted to free memory for others, and its pages had to be computed
 * again, or -1 on failure.
 */
QUIRE_API int64_t quire_job_preemptions(quire_job* job, quire_error** error);

/** Returns the nanoseconds from submit to the first work on the prompt, or until now, or -1 on failure. */
QUIRE_API int64_t quire_job_time_queued_ns(quire_job* job, quire_error** error);

/**
 * Returns the nanoseconds from the first work on the prompt to the first token, or until now, or -1 on
 * failure.
 */
QUIRE_API int64_t quire_job_time_prompt_ns(quire_job* job, quire_error** error);

/** Returns the nanoseconds from the first token to the end, or until now, or -1 on failure. */
QUIRE_API int64_t quire_job_time_generate_ns(quire_job* job, quire_error** error);

/**
 * Writes one value per prompt token of a finished QUIRE_JOB_KIND_SCORE job to out_values: the natural
 * logarithm of its probability after the tokens before it, NaN for the first. Empty for other jobs and
 * before the end. Returns their number (base.h, Results), or -1 on failure.
 */
QUIRE_API int64_t quire_job_scores(quire_job* job, float* out_values, size_t out_capacity,
                                   quire_error** error);

/**
 * Writes the logits of a finished QUIRE_JOB_KIND_SCORE job with quire_job_request_set_raw_logits to
 * out_values: [prompt tokens, vocab], where row i predicts the token after token i. Empty for other jobs.
 * Returns their number, or -1 on failure.
 */
QUIRE_API int64_t quire_job_raw_logits(quire_job* job, float* out_values, size_t out_capacity,
                                       quire_error** error);

/**
 * Writes the vector of a finished QUIRE_JOB_KIND_EMBED job to out_values. Empty for other jobs. Returns
 * their number, or -1 on failure.
 */
QUIRE_API int64_t quire_job_embedding(quire_job* job, float* out_values, size_t out_capacity,
                                      quire_error** error);

#ifdef __cplusplus
}
#endif

#endif /* QUIRE_JOB_H */
