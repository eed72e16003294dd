/*
 * An event: one piece of a job's result, taken from its job or queue.
 *
 * Each accepted job emits at most one STARTED event, any number of PROGRESS, TEXT and REWIND events, and
 * exactly one final event, FINISHED or ERROR, which summarizes the job. The texts of all events, joined and
 * cut back at each REWIND, are the text of the job: its decoded tokens up to the stop.
 *
 * An event never changes, so any number of threads may read one. Pointers borrowed from it are valid until
 * it is freed. It is self-contained: it can be read after its job, queue and cache are freed.
 */
#ifndef QUIRE_EVENT_H
#define QUIRE_EVENT_H

#include <quire/base.h>

/* Types of events. A later version may add types: skip unknown ones. */
#define QUIRE_EVENT_STARTED 1  /* the job left the waiting queue */
#define QUIRE_EVENT_PROGRESS 2 /* part of the work before the first token is done; on request only */
#define QUIRE_EVENT_TEXT 3     /* generated tokens and their text */
#define QUIRE_EVENT_FINISHED 4 /* final event of a job that completed or was cancelled */
#define QUIRE_EVENT_ERROR 5    /* final event of a job that failed, with the error */
#define QUIRE_EVENT_REWIND 6   /* text is withdrawn, except for the first quire_event_kept_bytes */
#define QUIRE_EVENT_LOG 7      /* log line, in a queue that subscribed to it; has no job */
#define QUIRE_EVENT_PAGE 8     /* change of a page, in a queue that follows a cache; has no job */

/* Changes of a page of a cache. A subscription begins with CLEARED and continues with each change; a
 * closed cache ends it with CLEARED. If memory for a CLEARED event is lacking, it is not delivered, and
 * the queue must subscribe again. */
#define QUIRE_PAGE_NONE 0    /* the event is not about a page */
#define QUIRE_PAGE_STORED 1  /* its tokens can now be found on its medium */
#define QUIRE_PAGE_REMOVED 2 /* it is no longer on its medium */
#define QUIRE_PAGE_CLEARED 3 /* no page is on any medium */

/* Medium that holds a page. */
#define QUIRE_MEDIUM_NONE 0   /* the event is not about a page, or no medium has one */
#define QUIRE_MEDIUM_DEVICE 1 /* in the cache */
#define QUIRE_MEDIUM_HOST 2   /* in host memory; see quire_cache_options_set_prefix_bytes */
#define QUIRE_MEDIUM_FILE 3   /* in a file; see quire_cache_options_set_prefix_directory */

/* Reasons why a job ended. A later version may add reasons. */
#define QUIRE_FINISH_NONE 0        /* it has not ended */
#define QUIRE_FINISH_STOP_TOKEN 1  /* a stop token, or an end-of-sequence token of the model */
#define QUIRE_FINISH_STOP_STRING 2 /* a stop string */
#define QUIRE_FINISH_LENGTH 3      /* the maximum number of new tokens was reached */
#define QUIRE_FINISH_MAX_SEQ_LEN 4 /* the sequence reached the maximum length of the cache */
#define QUIRE_FINISH_COMPLETED 5   /* a job that generates nothing is done (QUIRE_JOB_KIND_SCORE ...) */
#define QUIRE_FINISH_CANCELLED 6   /* cancelled by quire_job_cancel or by freeing its handle */
#define QUIRE_FINISH_ERROR 7       /* it failed */
#define QUIRE_FINISH_LOOP 8        /* its tokens repeat in a loop (quire_job_request_set_loop_guard) */

#ifdef __cplusplus
extern "C" {
#endif

/** Returns one of QUIRE_EVENT_*, or -1 on failure. */
QUIRE_API int32_t quire_event_type(quire_event* event, quire_error** error);

/**
 * Returns the number that was set in the request of the job (quire_job_request_set_user_data,
 * quire_job_request_set_user_data_step) or passed to quire_cache_follow_pages, or 0 on failure.
 */
QUIRE_API uint64_t quire_event_user_data(quire_event* event, quire_error** error);

/** Returns the id of the job as quire_job_id does, 0 for an event without a job, or -1 on failure. */
QUIRE_API int64_t quire_event_job_id(quire_event* event, quire_error** error);

/**
 * Returns the index of the completion that the event belongs to, from 0 (quire_job_submit_many), or -1 on
 * failure.
 */
QUIRE_API int32_t quire_event_index(quire_event* event, quire_error** error);

/**
 * Returns the text of this event: whole UTF-8 characters, never part of a stop string. A final event may
 * have text too, the rest that was held back. The text of a LOG event is the line. If out_len is not NULL,
 * *out_len receives the length in bytes. The text is also zero-terminated, and borrowed until the event is
 * freed. Returns NULL on failure.
 */
QUIRE_API const char* quire_event_text(quire_event* event, size_t* out_len, quire_error** error);

/**
 * Returns the kind of the text of a TEXT event, one of QUIRE_RESPONSE_* of response.h, if the request has a
 * dialect (quire_job_request_set_response_dialect). Otherwise it is QUIRE_RESPONSE_NONE. Returns -1 on
 * failure. With a dialect, quire_event_text is the raw output including markup. A step that produces
 * several kinds emits one event for each; its tokens come with the last one.
 */
QUIRE_API int32_t quire_event_response_kind(quire_event* event, quire_error** error);

/**
 * Returns the meaning of the raw text, in the form of quire_event_text: text, reasoning, or a piece of the
 * arguments of a call as JSON, otherwise empty. Returns NULL on failure.
 */
QUIRE_API const char* quire_event_response_text(quire_event* event, size_t* out_len, quire_error** error);

/**
 * Returns the index of the tool call of the answer that the event belongs to, from 0, or -1 if there is
 * none. Also returns -1, with an error, on failure.
 */
QUIRE_API int64_t quire_event_call_index(quire_event* event, quire_error** error);

/**
 * Returns the name of the tool if a call begins or ends, in the form of quire_event_text, otherwise an
 * empty text. Returns NULL on failure.
 */
QUIRE_API const char* quire_event_call_name(quire_event* event, size_t* out_len, quire_error** error);

/**
 * Returns the id of the call if a call begins or ends and the answer has an id by then, otherwise an empty
 * text. Returns NULL on failure.
 */
QUIRE_API const char* quire_event_call_id(quire_event* event, size_t* out_len, quire_error** error);

/**
 * Writes the generated token ids of this event to out_tokens. A token whose text is held back, as part of a
 * character or of a possible stop string, comes with the event that has its text, or with the final event;
 * none is lost. If the text of a token is split over several events, the first has the token. For a PAGE
 * event with STORED, these are the tokens of the page, if known. Returns their number (base.h, Results), or
 * -1 on failure.
 */
QUIRE_API int64_t quire_event_tokens(quire_event* event, int32_t* out_tokens, size_t out_capacity,
                                     quire_error** error);

/**
 * Returns the position of the first of quire_event_tokens among the generated tokens of the job, from 0, or
 * -1 on failure. If the event has no tokens, it is the position of the next token.
 */
QUIRE_API int64_t quire_event_first_token(quire_event* event, quire_error** error);

/**
 * Returns the number of tokens of earlier events that a REWIND event keeps, counted from the first, or 0
 * for other events. Returns -1 on failure.
 */
QUIRE_API int64_t quire_event_kept_tokens(quire_event* event, quire_error** error);

/**
 * Returns the number of bytes of the text so far that a REWIND event keeps, counted from the first, or 0
 * for other events. Returns -1 on failure. With a dialect, kept events are those that begin before that
 * byte, and those without bytes at it; text and reasoning are cut there. A call that has not ended by then
 * is reported again from its beginning.
 */
QUIRE_API int64_t quire_event_kept_bytes(quire_event* event, quire_error** error);

/**
 * Writes the natural logarithm of the probability of each of quire_event_tokens to out_values, under the
 * model's own distribution before temperature and truncation. Empty unless requested by
 * quire_job_request_set_log_probs. Returns their number, or -1 on failure.
 */
QUIRE_API int64_t quire_event_log_probs(quire_event* event, float* out_values, size_t out_capacity,
                                        quire_error** error);

/**
 * Writes the most likely tokens at the position of each of quire_event_tokens to out_tokens, likeliest
 * first: [tokens, n] ids, row by row, with n = quire_job_request_set_top_log_probs. Returns their number,
 * or -1 on failure.
 */
QUIRE_API int64_t quire_event_top_tokens(quire_event* event, int32_t* out_tokens, size_t out_capacity,
                                         quire_error** error);

/**
 * Writes the log-probabilities of quire_event_top_tokens to out_values. Returns their number, or -1 on
 * failure.
 */
QUIRE_API int64_t quire_event_top_log_probs(quire_event* event, float* out_values, size_t out_capacity,
                                            quire_error** error);

/**
 * Returns the amount of work done at a PROGRESS event, otherwise 0, or -1 on failure. For a prompt it
 * counts tokens, including cached ones.
 */
QUIRE_API int64_t quire_event_progress_done(quire_event* event, quire_error** error);

/** Returns the total amount of work at a PROGRESS event, otherwise 0, or -1 on failure. */
QUIRE_API int64_t quire_event_progress_total(quire_event* event, quire_error** error);

/** Returns the level of a LOG event, one of QUIRE_LOG_*, otherwise QUIRE_LOG_OFF, or -1 on failure. */
QUIRE_API int32_t quire_event_log_level(quire_event* event, quire_error** error);

/**
 * Returns the number of lines after a LOG event that were dropped because earlier lines were not taken,
 * otherwise 0, or -1 on failure.
 */
QUIRE_API int64_t quire_event_lost_lines(quire_event* event, quire_error** error);

/**
 * Returns the change that a PAGE event reports, one of QUIRE_PAGE_*, otherwise QUIRE_PAGE_NONE, or -1 on
 * failure.
 */
QUIRE_API int32_t quire_event_page_change(quire_event* event, quire_error** error);

/**
 * Returns the medium of a PAGE event, one of QUIRE_MEDIUM_*, or -1 on failure. It is QUIRE_MEDIUM_NONE for
 * QUIRE_PAGE_CLEARED and for other events.
 */
QUIRE_API int32_t quire_event_page_medium(quire_event* event, quire_error** error);

/**
 * Returns the sequence number of a PAGE event, otherwise -1. Numbers count from 0 with each
 * quire_cache_follow_pages; a gap means that events were lost. Also returns -1, with an error, on failure.
 */
QUIRE_API int64_t quire_event_page_number(quire_event* event, quire_error** error);

/**
 * Returns the hash that identifies the page of a PAGE event, otherwise 0, or 0 on failure. It is equal on
 * every medium and in every process for equal tokens from the beginning and an equal namespace.
 */
QUIRE_API uint64_t quire_event_page_hash(quire_event* event, quire_error** error);

/**
 * Returns the hash of the page that the page of a PAGE event continues, or 0 if it is the first page, if
 * the parent is unknown, or for other events. Also returns 0, with an error, on failure.
 */
QUIRE_API uint64_t quire_event_page_parent(quire_event* event, quire_error** error);

/**
 * Returns the namespace of the page of a PAGE event, in the form of quire_event_text, otherwise an empty
 * text. Returns NULL on failure.
 */
QUIRE_API const char* quire_event_page_namespace(quire_event* event, size_t* out_len, quire_error** error);

/**
 * Returns the reason why the job ended, for a final event, one of QUIRE_FINISH_*, otherwise
 * QUIRE_FINISH_NONE, or -1 on failure.
 */
QUIRE_API int32_t quire_event_finish_reason(quire_event* event, quire_error** error);

/**
 * Returns the stop token of a final event, like quire_job_stop_token, otherwise -1. Also returns -1, with
 * an error, on failure.
 */
QUIRE_API int32_t quire_event_stop_token(quire_event* event, quire_error** error);

/**
 * Returns the stop string of a final event, like quire_job_stop_text, in the form of quire_event_text,
 * otherwise an empty text. Returns NULL on failure.
 */
QUIRE_API const char* quire_event_stop_text(quire_event* event, size_t* out_len, quire_error** error);

/* Usage of the job in a final event, with the getters of job.h; 0 for other events, -1 on failure. */

/** Returns the number of tokens of the prompt. */
QUIRE_API int64_t quire_event_prompt_tokens(quire_event* event, quire_error** error);

/** Returns the number of prompt tokens that were found in the cache. */
QUIRE_API int64_t quire_event_cached_tokens(quire_event* event, quire_error** error);

/**
 * Returns the number of generated tokens, including a stop token but not tokens that a rewind took back.
 */
QUIRE_API int64_t quire_event_new_tokens(quire_event* event, quire_error** error);

/** Returns the number of draft tokens that speculative decoding proposed. */
QUIRE_API int64_t quire_event_draft_tokens(quire_event* event, quire_error** error);

/** Returns the number of draft tokens that were accepted. */
QUIRE_API int64_t quire_event_accepted_draft_tokens(quire_event* event, quire_error** error);

/**
 * Writes the number of accepted draft tokens at each position among those of a step to out_counts, the first
 * position first. Returns the number of positions, 0 for other events, or -1 on failure.
 */
QUIRE_API int64_t quire_event_accepted_by_position(quire_event* event, int64_t* out_counts,
                                                   size_t out_capacity, quire_error** error);

/** Returns how often the job was preempted to free memory for others. */
QUIRE_API int64_t quire_event_preemptions(quire_event* event, quire_error** error);

/** Returns the nanoseconds from submit to the first work on the prompt. */
QUIRE_API int64_t quire_event_time_queued_ns(quire_event* event, quire_error** error);

/** Returns the nanoseconds from the first work on the prompt to the first token. */
QUIRE_API int64_t quire_event_time_prompt_ns(quire_event* event, quire_error** error);

/** Returns the nanoseconds from the first token to the end. */
QUIRE_API int64_t quire_event_time_generate_ns(quire_event* event, quire_error** error);

/**
 * Returns the error code of an ERROR event, one of QUIRE_ERROR_*, otherwise QUIRE_ERROR_OK, or -1 on
 * failure.
 */
QUIRE_API int32_t quire_event_error_code(quire_event* event, quire_error** error);

/**
 * Returns the reason of an ERROR event in one line, otherwise an empty text. If out_len is not NULL,
 * *out_len receives the length in bytes. The text is also zero-terminated, and borrowed until the event is
 * freed. Returns NULL on failure.
 */
QUIRE_API const char* quire_event_error_message(quire_event* event, size_t* out_len, quire_error** error);

/**
 * Returns the parameter of the request that an ERROR event is about, named as by quire_error_parameter;
 * empty if the error is not about one, and for other events. If out_len is not NULL, *out_len receives the
 * length in bytes. The text is also zero-terminated, and borrowed until the event is freed. Returns NULL on
 * failure.
 */
QUIRE_API const char* quire_event_error_parameter(quire_event* event, size_t* out_len, quire_error** error);

/** Frees an event. NULL does nothing. Returns 1, or 0 on failure. */
QUIRE_API int32_t quire_event_free(quire_event* handle, quire_error** error);

#ifdef __cplusplus
}
#endif

#endif /* QUIRE_EVENT_H */
