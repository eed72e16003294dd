/*
 * A job: a piece of work that is submitted, gives events, and can be cancelled from any thread. The thread of
 * its cache does the work, together with that of other jobs; no call here waits for it but those with a
 * timeout.
 *
 * Any number of threads may use one job at the same time; two that poll share the events, each of which is
 * given to exactly one. Freeing the last handle of a job cancels it.
 */
#ifndef QUIRE_JOB_H
#define QUIRE_JOB_H

#include <quire/base.h>

/* Where a job stands. A later version may add states. */
#define QUIRE_JOB_STATE_QUEUED 0     /* waits for its turn, at first or after others needed room */
#define QUIRE_JOB_STATE_PROMPT 1     /* its prompt is being computed */
#define QUIRE_JOB_STATE_GENERATING 2 /* it generates tokens */
#define QUIRE_JOB_STATE_PAUSED 3     /* quire_job_pause, or nobody takes its events */
#define QUIRE_JOB_STATE_FINISHED 4   /* over, whatever the reason */

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Submits a copy of the request. Text is tokenized in this call, on the caller's thread, and everything that
 * can be refused is refused here: QUIRE_ERROR_INVALID_ARGUMENT naming the field, QUIRE_ERROR_ENCODING for a
 * prompt that is not UTF-8, QUIRE_ERROR_TOO_LARGE where the job can never fit (the message has what is needed
 * and what there is), QUIRE_ERROR_CAPACITY where the queue of the cache is full and QUIRE_ERROR_QUOTA where
 * that of its namespace is, both worth another try, QUIRE_ERROR_DEADLINE_TOO_SHORT, QUIRE_ERROR_CLOSED,
 * QUIRE_ERROR_DEVICE_LOST. A setting that does not count for the kind of the job is refused as well. A
 * refused job leaves nothing and yields no event. Does not wait. The caller owns the job. NULL on
 * failure.
 */
QUIRE_API quire_job* quire_job_submit(quire_cache* cache, quire_job_request* request, quire_error** error);

/**
 * Submits num_jobs (1 or more) copies of the request, all or none: completions of one prompt, which is
 * computed once. Their seeds count up from that of the request, and their user data by
 * quire_job_request_set_user_data_step; all else is the same. quire_event_index tells which of them an event
 * is of, also before this call has returned. They go to out_jobs, [num_jobs]; the caller owns each. Returns
 * 1, or 0 on failure, as quire_job_submit, and with QUIRE_ERROR_TOO_LARGE where the queue of the cache or the
 * quota of the namespace could never hold so many.
 */
QUIRE_API int32_t quire_job_submit_many(quire_cache* cache, quire_job_request* request, quire_job** out_jobs,
                                        size_t num_jobs, quire_error** error);

/**
 * Waits for the next event and takes it (base.h: waits). 1: *out_event has it, and the caller owns it
 * (quire_event_free). QUIRE_WAIT_END once the last event was taken, by whomever. *out_event is NULL where
 * none was taken. Where another thread frees the job while this call waits, it ends as a cancelled job does.
 */
QUIRE_API int32_t quire_job_poll(quire_job* job, int64_t timeout_ns, quire_cancel* cancel,
                                 quire_event** out_event, quire_error** error);

/**
 * Takes up to max_events events at once, 1 or more, waiting for the first and not for the others. They go to
 * out_events, [max_events]; the caller owns each. Returns how many there are, else as quire_job_poll.
 */
QUIRE_API int64_t quire_job_drain(quire_job* job, int64_t timeout_ns, quire_cancel* cancel,
                                  quire_event** out_events, size_t max_events, quire_error** error);

/**
 * Waits for the job to end, taking no event. 1: it is over; else QUIRE_WAIT_TIMEOUT, QUIRE_WAIT_CANCELLED
 * (the wait was, not the job) or QUIRE_WAIT_FAILED.
 */
QUIRE_API int32_t quire_job_wait(quire_job* job, int64_t timeout_ns, quire_cancel* cancel,
                                 quire_error** error);

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
 * Takes generated tokens back, all but the first num_new_tokens, and lets the job go on from there. Where
 * events have had more than that, a QUIRE_EVENT_REWIND says what of it stands. Nothing changes where there
 * are no more tokens than that, or where the job is over. Returns 1, or 0 on failure.
 */
QUIRE_API int32_t quire_job_rewind(quire_job* job, int32_t num_new_tokens, quire_error** error);

/**
 * A second job that goes on from the tokens of this one between two steps; both share what is computed so
 * far. `request` may set the seed, the user data, the queue and max_new_tokens, counted from the fork;
 * anything else set in it is refused (QUIRE_ERROR_INVALID_ARGUMENT), since it is as in this job. Where this
 * job is over by then the fork ends with QUIRE_ERROR_CLOSED, where it could never have its pages with
 * QUIRE_ERROR_TOO_LARGE. Refused as quire_job_submit refuses, and with QUIRE_ERROR_INVALID_ARGUMENT for a job
 * that generates nothing. The tokens of the events of the fork count from 0. The caller owns the new job.
 * NULL on failure.
 */
QUIRE_API quire_job* quire_job_fork(quire_job* job, quire_job_request* request, quire_error** error);

/** A number that no other job of the process has or will have; log lines name it. -1 on failure. */
QUIRE_API int64_t quire_job_id(quire_job* job, quire_error** error);

/** The seed that the tokens are drawn with, also where the request left it to chance; 0 on failure. */
QUIRE_API uint64_t quire_job_seed(quire_job* job, quire_error** error);

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

/** How many tokens speculation has proposed so far; -1 on failure. */
QUIRE_API int64_t quire_job_draft_tokens(quire_job* job, quire_error** error);

/** How many of them stood; -1 on failure. */
QUIRE_API int64_t quire_job_accepted_draft_tokens(quire_job* job, quire_error** error);

/** How often the job had to give its room to others and compute it again; -1 on failure. */
QUIRE_API int64_t quire_job_preemptions(quire_job* job, quire_error** error);

/** Nanoseconds from submit to the first work on the prompt, or until now; -1 on failure. */
QUIRE_API int64_t quire_job_time_queued_ns(quire_job* job, quire_error** error);

/** Nanoseconds from the first work on the prompt to the first token, or until now; -1 on failure. */
QUIRE_API int64_t quire_job_time_prompt_ns(quire_job* job, quire_error** error);

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
