/*
 * A job: one generation, submitted to a cache, polled for events, cancelled from any thread.
 *
 * Any number of threads may use one job at the same time; two that poll share the events, each of which is
 * given to exactly one. Freeing the last handle of a job cancels it.
 */
#ifndef QUIRE_JOB_H
#define QUIRE_JOB_H

#include <quire/base.h>

/* Where a job stands. A later version may add states. */
#define QUIRE_JOB_STATE_QUEUED 0     /* waits for its turn, at first or after others needed room */
#define QUIRE_JOB_STATE_PREFILL 1    /* its prompt is being computed */
#define QUIRE_JOB_STATE_GENERATING 2 /* it generates tokens */
#define QUIRE_JOB_STATE_PAUSED 3     /* quire_job_pause, or nobody takes its events */
#define QUIRE_JOB_STATE_FINISHED 4   /* over, whatever the reason */

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Submits a copy of the request. Text is tokenized in this call, on the caller's thread, and everything that
 * can be refused is refused here: QUIRE_ERROR_INVALID_ARGUMENT naming the field, QUIRE_ERROR_ENCODING for a
 * prompt that is not UTF-8, QUIRE_ERROR_CAPACITY where the job can never fit or the queue of the cache is
 * full (the message has what is needed and what there is), QUIRE_ERROR_QUOTA, QUIRE_ERROR_DEADLINE where a
 * deadline cannot be met, QUIRE_ERROR_CLOSED, QUIRE_ERROR_DEVICE_LOST. A refused job leaves nothing behind
 * and yields no event. Does not wait. The caller owns the job. NULL on failure.
 */
QUIRE_API quire_job* quire_job_submit(quire_cache* cache, quire_job_request* request, quire_error** error);

/**
 * Submits num_jobs (1 or more) copies of the request, all or none: completions of one prompt, which is
 * computed once. Their seeds count up from that of the request; all else is the same, so that in a queue
 * quire_event_job_id tells them apart. They go to out_jobs, [num_jobs]; the caller owns each. Returns 1, or 0
 * on failure, as quire_job_submit, and with QUIRE_ERROR_INVALID_ARGUMENT where the queue of the cache could
 * never hold so many.
 */
QUIRE_API int32_t quire_job_submit_many(quire_cache* cache, quire_job_request* request, quire_job** out_jobs,
                                        size_t num_jobs, quire_error** error);

/**
 * Takes the next event, waiting up to timeout_ns for one. The caller owns the event (quire_event_free). NULL
 * with *error NULL: the timeout passed, or the last event was taken before (so with QUIRE_WAIT_FOREVER, NULL
 * without an error is the end). Where another thread frees the job while this call waits, it ends as a
 * cancelled job does.
 */
QUIRE_API quire_event* quire_job_poll(quire_job* job, int64_t timeout_ns, quire_error** error);

/**
 * Waits up to timeout_ns for the job to end, taking no event. 1: it is over. 0: the timeout passed. -1 on
 * failure.
 */
QUIRE_API int32_t quire_job_wait(quire_job* job, int64_t timeout_ns, quire_error** error);

/**
 * Ends the job within one step, or one chunk of its prompt, with QUIRE_FINISH_CANCELLED; events so far stay
 * to be taken. Does not wait. Does nothing to a job that is over, and may be called again. Returns 1, or 0 on
 * failure.
 */
QUIRE_API int32_t quire_job_cancel(quire_job* job, quire_error** error);

/**
 * Frees the handle; a job that is not over is cancelled, and events that were not taken are gone, from its
 * queue too. Never waits, so that a finalizer may call it. NULL does nothing. Returns 1, or 0 on failure.
 */
QUIRE_API int32_t quire_job_free(quire_job* handle, quire_error** error);

/**
 * Sets the job aside: it keeps its room in the cache and takes part in no step until quire_job_resume. Where
 * room gets scarce paused jobs lose theirs first, and compute it again when they resume. Does nothing to a
 * job that is over. Returns 1, or 0 on failure.
 */
QUIRE_API int32_t quire_job_pause(quire_job* job, quire_error** error);

/** Lets a paused job go on. Returns 1, or 0 on failure. */
QUIRE_API int32_t quire_job_resume(quire_job* job, quire_error** error);

/** Changes the priority, as quire_job_request_set_priority sets it. Returns 1, or 0 on failure. */
QUIRE_API int32_t quire_job_set_priority(quire_job* job, int32_t priority, quire_error** error);

/**
 * Takes generated tokens back, all but the first num_new_tokens, and lets the job go on from there; events
 * are not taken back. Nothing changes where there are no more than that, or where the job is over. Returns 1,
 * or 0 on failure.
 */
QUIRE_API int32_t quire_job_rewind(quire_job* job, int32_t num_new_tokens, quire_error** error);

/**
 * A second job that goes on from the tokens of this one between two steps; both share what is computed so
 * far. Of `request` counts the seed, the user data and the queue, and max_new_tokens where it was set,
 * counted from the fork; all else is as in this job. Where this job is over by then the fork ends with
 * QUIRE_ERROR_CLOSED, where it could never have its pages with QUIRE_ERROR_CAPACITY or QUIRE_ERROR_QUOTA.
 * Refused as quire_job_submit refuses, and with QUIRE_ERROR_INVALID_ARGUMENT for a job that generates
 * nothing. The caller owns the new job. NULL on failure.
 */
QUIRE_API quire_job* quire_job_fork(quire_job* job, quire_job_request* request, quire_error** error);

/** A number that no other job of the cache has or will have; log lines name it. -1 on failure. */
QUIRE_API int64_t quire_job_id(quire_job* job, quire_error** error);

/** One of QUIRE_JOB_STATE_*; -1 on failure. */
QUIRE_API int32_t quire_job_state(quire_job* job, quire_error** error);

/**
 * Why the job ended, one of QUIRE_FINISH_* (event.h); QUIRE_FINISH_NONE while it is not over; -1 on failure.
 */
QUIRE_API int32_t quire_job_finish_reason(quire_job* job, quire_error** error);

/** Of a job that a stop token ended: the token; else -1. -1 with an error on failure. */
QUIRE_API int32_t quire_job_stop_token(quire_job* job, quire_error** error);

/**
 * Of a job that a stop string ended: the string; else empty. Returns its bytes (base.h: results), -1 on
 * failure.
 */
QUIRE_API int64_t quire_job_stop_text(quire_job* job, char* out_text, size_t out_capacity,
                                      quire_error** error);

/** The QUIRE_ERROR_* code of what ended the job; QUIRE_ERROR_OK where nothing did; -1 on failure. */
QUIRE_API int32_t quire_job_error_code(quire_job* job, quire_error** error);

/**
 * One line for a person: why the job waits, what it does, or how it ended; numbers, no text of the job.
 * Returns its bytes, which change with time: pass room to spare. -1 on failure.
 */
QUIRE_API int64_t quire_job_explain(quire_job* job, char* out_text, size_t out_capacity, quire_error** error);

/** How many tokens the prompt has, those added by the tokenizer included; -1 on failure. */
QUIRE_API int64_t quire_job_prompt_tokens(quire_job* job, quire_error** error);

/** How many of them were found in the cache and not computed again; -1 on failure. */
QUIRE_API int64_t quire_job_cached_tokens(quire_job* job, quire_error** error);

/** How many tokens were generated so far, a stop token included; -1 on failure. */
QUIRE_API int64_t quire_job_new_tokens(quire_job* job, quire_error** error);

/** How often the job had to give its room to others and compute it again; -1 on failure. */
QUIRE_API int64_t quire_job_preemptions(quire_job* job, quire_error** error);

/** Nanoseconds from submit to the first work on the prompt, or until now; -1 on failure. */
QUIRE_API int64_t quire_job_time_queued_ns(quire_job* job, quire_error** error);

/** Nanoseconds from the first work on the prompt to the first token, or until now; -1 on failure. */
QUIRE_API int64_t quire_job_time_prefill_ns(quire_job* job, quire_error** error);

/** Nanoseconds from the first token to the end, or until now; -1 on failure. */
QUIRE_API int64_t quire_job_time_generate_ns(quire_job* job, quire_error** error);

/**
 * Of a finished QUIRE_JOB_KIND_SCORE job: a value per token of the prompt, the natural logarithm of its
 * probability after the tokens before it; NaN for the first. Empty before. Returns their number (base.h:
 * results), -1 on failure.
 */
QUIRE_API int64_t quire_job_scores(quire_job* job, float* out_values, size_t out_capacity,
                                   quire_error** error);

/**
 * Of a finished QUIRE_JOB_KIND_SCORE job with quire_job_request_set_raw_logits: [prompt tokens, vocab]
 * logits, row i for what follows token i. Empty else. Returns their number, -1 on failure.
 */
QUIRE_API int64_t quire_job_raw_logits(quire_job* job, float* out_values, size_t out_capacity,
                                       quire_error** error);

/** Of a finished QUIRE_JOB_KIND_EMBED job: the vector. Empty else. Returns its length, -1 on failure. */
QUIRE_API int64_t quire_job_embedding(quire_job* job, float* out_values, size_t out_capacity,
                                      quire_error** error);

#ifdef __cplusplus
}
#endif

#endif /* QUIRE_JOB_H */
