/*
 * An event: one piece of a job's result, pulled from its job or queue.
 *
 * Each accepted job yields at most one STARTED, any number of PROGRESS, TEXT and REWIND, and exactly one last
 * event, FINISHED or ERROR, which has all that the job has come to. The texts of all events, one after
 * another and cut where a REWIND says so, are the text of the job: what its tokens decode to, up to the stop.
 * An event never changes, so any number of threads may read one; pointers borrowed from it hold until it is
 * freed. It stands alone: it can be read after its job, queue and cache are freed.
 */
#ifndef QUIRE_EVENT_H
#define QUIRE_EVENT_H

#include <quire/base.h>

/* Types of events. A later version may add types: skip what is not known. */
#define QUIRE_EVENT_STARTED 1  /* the job left the waiting queue */
#define QUIRE_EVENT_PROGRESS 2 /* a part of the work before the first token is done; where asked for */
#define QUIRE_EVENT_TEXT 3     /* generated tokens and their text */
#define QUIRE_EVENT_FINISHED 4 /* the last event of a job that came to its end or was cancelled */
#define QUIRE_EVENT_ERROR 5    /* the last event of a job that failed; quire_event_error_code says why */
#define QUIRE_EVENT_REWIND 6   /* text is taken back, all but quire_event_kept_tokens, _kept_bytes */
#define QUIRE_EVENT_LOG 7      /* a line of the log, in a queue that asked for it; of no job */
#define QUIRE_EVENT_PAGE 8     /* what became of a page, in a queue that follows a cache; of no job */

/* What became of a page of a cache. Following begins with CLEARED; what comes of the pages follows, and a
 * cache that is closed ends with CLEARED. A queue that gets no CLEARED, for want of memory, has to follow
 * again. */
#define QUIRE_PAGE_NONE 0    /* the event is of no page */
#define QUIRE_PAGE_STORED 1  /* its tokens can be found on its medium from now on */
#define QUIRE_PAGE_REMOVED 2 /* no longer there */
#define QUIRE_PAGE_CLEARED 3 /* no page is anywhere */

/* Where a page is. */
#define QUIRE_MEDIUM_NONE 0
#define QUIRE_MEDIUM_DEVICE 1 /* in the cache */
#define QUIRE_MEDIUM_HOST 2   /* quire_cache_options_set_prefix_bytes */
#define QUIRE_MEDIUM_FILE 3   /* quire_cache_options_set_prefix_directory */

/* Why a job ended. A later version may add reasons. */
#define QUIRE_FINISH_NONE 0        /* it has not ended */
#define QUIRE_FINISH_STOP_TOKEN 1  /* a stop token, or an end-of-sequence token of the model */
#define QUIRE_FINISH_STOP_STRING 2 /* a stop string */
#define QUIRE_FINISH_LENGTH 3      /* max_new_tokens were generated */
#define QUIRE_FINISH_MAX_SEQ_LEN 4 /* the sequence is as long as the cache allows */
#define QUIRE_FINISH_COMPLETED 5   /* a job that generates nothing is done (QUIRE_JOB_KIND_SCORE ...) */
#define QUIRE_FINISH_CANCELLED 6   /* quire_job_cancel, or its handle was freed */
#define QUIRE_FINISH_ERROR 7       /* it failed */
#define QUIRE_FINISH_LOOP 8        /* its tokens ran in a loop (quire_job_request_set_loop_guard) */

#ifdef __cplusplus
extern "C" {
#endif

/** One of QUIRE_EVENT_*; -1 on failure. */
QUIRE_API int32_t quire_event_type(quire_event* event, quire_error** error);

/**
 * The number that the request of the job was given (quire_job_request_set_user_data and _user_data_step), or
 * quire_cache_follow_pages; 0 on failure.
 */
QUIRE_API uint64_t quire_event_user_data(quire_event* event, quire_error** error);

/** The id of the job, quire_job_id; 0 where the event is of no job; -1 on failure. */
QUIRE_API int64_t quire_event_job_id(quire_event* event, quire_error** error);

/** Which of the completions that quire_job_submit_many made it is of, from 0; -1 on failure. */
QUIRE_API int32_t quire_event_index(quire_event* event, quire_error** error);

/**
 * The text that came with this event: whole UTF-8 characters, never a piece of a stop string. A last event
 * may have text too, the rest that was held back. Of a LOG event: the line. *out_len, where out_len is not
 * NULL, receives its length in bytes; zero-terminated too. Borrowed until the event is freed. NULL on
 * failure.
 */
QUIRE_API const char* quire_event_text(quire_event* event, size_t* out_len, quire_error** error);

/**
 * Of a TEXT event of a request with a dialect (quire_job_request_set_response_dialect): what its text is, one
 * of QUIRE_RESPONSE_* of response.h. quire_event_text is the raw output then, marks included. Where a step
 * gives several kinds there is an event for each; its tokens come with the last one. Else
 * QUIRE_RESPONSE_NONE; -1 on failure.
 */
QUIRE_API int32_t quire_event_response_kind(quire_event* event, quire_error** error);

/**
 * What the raw text stands for, as quire_event_text gives text: text, reasoning, or a piece of the arguments
 * of a call as JSON; else empty. NULL on failure.
 */
QUIRE_API const char* quire_event_response_text(quire_event* event, size_t* out_len, quire_error** error);

/** Which call of the answer the event is of, from 0; -1 where it is of none, and on failure. */
QUIRE_API int64_t quire_event_call_index(quire_event* event, quire_error** error);

/** The name of the tool where a call begins or ends, as quire_event_text gives text; else empty. NULL on
 * failure.
 */
QUIRE_API const char* quire_event_call_name(quire_event* event, size_t* out_len, quire_error** error);

/**
 * The id of the call where it begins or ends, as far as the answer has one by then; else empty. NULL on
 * failure.
 */
QUIRE_API const char* quire_event_call_id(quire_event* event, size_t* out_len, quire_error** error);

/**
 * The generated token ids that came with this event. A token whose text is held back, as part of a character
 * or of a possible stop string, comes with the event that has its text, or with the last one: none is lost.
 * One whose text comes in parts comes with the first; an event with the rest alone has no tokens. Of a PAGE
 * event: what the page holds, where it was STORED and that is known. Returns their number (base.h: results),
 * -1 on failure.
 */
QUIRE_API int64_t quire_event_tokens(quire_event* event, int32_t* out_tokens, size_t out_capacity,
                                     quire_error** error);

/**
 * The place of the first of quire_event_tokens among the generated tokens of the job, from 0; where there are
 * none, of the token that comes next. -1 on failure.
 */
QUIRE_API int64_t quire_event_first_token(quire_event* event, quire_error** error);

/**
 * Of a REWIND event: how many of the tokens that events have had so far still stand, the first ones; else 0;
 * -1 on failure.
 */
QUIRE_API int64_t quire_event_kept_tokens(quire_event* event, quire_error** error);

/**
 * Of a REWIND event: how many bytes of the text so far still stand, the first ones; else 0; -1 on failure. Of
 * events with a kind those stand that begin before that place, and those without bytes at it; text and
 * reasoning are cut there. A call that has no end by then is told again from its beginning.
 */
QUIRE_API int64_t quire_event_kept_bytes(quire_event* event, quire_error** error);

/**
 * The natural logarithm of the probability of each of quire_event_tokens under the model's own distribution,
 * before temperature and cuts. Empty unless asked for (quire_job_request_set_log_probs). Returns their
 * number, -1 on failure.
 */
QUIRE_API int64_t quire_event_log_probs(quire_event* event, float* out_values, size_t out_capacity,
                                        quire_error** error);

/**
 * The most likely tokens at the place of each of quire_event_tokens, likeliest first: [tokens, n] ids in one
 * row after another, n = quire_job_request_set_top_log_probs. Returns their number, -1 on failure.
 */
QUIRE_API int64_t quire_event_top_tokens(quire_event* event, int32_t* out_tokens, size_t out_capacity,
                                         quire_error** error);

/** The log-probabilities that belong to quire_event_top_tokens. Returns their number, -1 on failure. */
QUIRE_API int64_t quire_event_top_log_probs(quire_event* event, float* out_values, size_t out_capacity,
                                            quire_error** error);

/**
 * Of a PROGRESS event: how much is done, of a prompt its tokens, cached ones included; else 0; -1 on failure.
 */
QUIRE_API int64_t quire_event_progress_done(quire_event* event, quire_error** error);

/** Of a PROGRESS event: how much there is to do; else 0; -1 on failure. */
QUIRE_API int64_t quire_event_progress_total(quire_event* event, quire_error** error);

/** Of a LOG event: one of QUIRE_LOG_*; else QUIRE_LOG_OFF; -1 on failure. */
QUIRE_API int32_t quire_event_log_level(quire_event* event, quire_error** error);

/** Of a LOG event: how many lines after it were dropped, since nobody took those before; else 0; -1 on
 * failure. */
QUIRE_API int64_t quire_event_lost_lines(quire_event* event, quire_error** error);

/** Of a PAGE event: one of QUIRE_PAGE_*; else QUIRE_PAGE_NONE; -1 on failure. */
QUIRE_API int32_t quire_event_page_change(quire_event* event, quire_error** error);

/** Of a PAGE event: one of QUIRE_MEDIUM_*; of CLEARED and else QUIRE_MEDIUM_NONE; -1 on failure. */
QUIRE_API int32_t quire_event_page_medium(quire_event* event, quire_error** error);

/**
 * Of a PAGE event: its number, one more than that of the event before, from 0 with each
 * quire_cache_follow_pages. Where numbers jump, events were lost. Else -1; -1 on failure.
 */
QUIRE_API int64_t quire_event_page_number(quire_event* event, quire_error** error);

/**
 * Of a PAGE event: what names the page. Equal on every medium and in every process for equal tokens from the
 * beginning in an equal namespace. Else 0; 0 on failure.
 */
QUIRE_API uint64_t quire_event_page_hash(quire_event* event, quire_error** error);

/**
 * Of a PAGE event: what names the page before, which it continues; 0 where it is the first, or where that is
 * not known. Else 0; 0 on failure.
 */
QUIRE_API uint64_t quire_event_page_parent(quire_event* event, quire_error** error);

/** Of a PAGE event: the namespace of the page, as quire_event_text gives text; else empty. NULL on failure.
 */
QUIRE_API const char* quire_event_page_namespace(quire_event* event, size_t* out_len, quire_error** error);

/** Of a last event: one of QUIRE_FINISH_*; else QUIRE_FINISH_NONE; -1 on failure. */
QUIRE_API int32_t quire_event_finish_reason(quire_event* event, quire_error** error);

/** Of a last event: quire_job_stop_token; else -1. -1 with an error on failure. */
QUIRE_API int32_t quire_event_stop_token(quire_event* event, quire_error** error);

/** Of a last event: quire_job_stop_text, as quire_event_text gives text; else empty. NULL on failure. */
QUIRE_API const char* quire_event_stop_text(quire_event* event, size_t* out_len, quire_error** error);

/* Of a last event: what the job took, by the getters of job.h; else 0; -1 on failure. */

/** Tokens of the prompt. */
QUIRE_API int64_t quire_event_prompt_tokens(quire_event* event, quire_error** error);

/** Those of the prompt that were found in the cache. */
QUIRE_API int64_t quire_event_cached_tokens(quire_event* event, quire_error** error);

/** Tokens generated, a stop token included; what a rewind took back is not counted. */
QUIRE_API int64_t quire_event_new_tokens(quire_event* event, quire_error** error);

/** Tokens that speculation proposed. */
QUIRE_API int64_t quire_event_draft_tokens(quire_event* event, quire_error** error);

/** Those of the proposed tokens that stood. */
QUIRE_API int64_t quire_event_accepted_draft_tokens(quire_event* event, quire_error** error);

/** How often the job had to give its room to others. */
QUIRE_API int64_t quire_event_preemptions(quire_event* event, quire_error** error);

/** Nanoseconds from submit to the first work on the prompt. */
QUIRE_API int64_t quire_event_time_queued_ns(quire_event* event, quire_error** error);

/** Nanoseconds from the first work on the prompt to the first token. */
QUIRE_API int64_t quire_event_time_prompt_ns(quire_event* event, quire_error** error);

/** Nanoseconds from the first token to the end. */
QUIRE_API int64_t quire_event_time_generate_ns(quire_event* event, quire_error** error);

/** Of an ERROR event: the QUIRE_ERROR_* code of what ended the job; else QUIRE_ERROR_OK; -1 on failure. */
QUIRE_API int32_t quire_event_error_code(quire_event* event, quire_error** error);

/**
 * Of an ERROR event: one line that says why; else empty. *out_len, where out_len is not NULL, receives its
 * length in bytes; zero-terminated too. Borrowed until the event is freed. NULL on failure.
 */
QUIRE_API const char* quire_event_error_message(quire_event* event, size_t* out_len, quire_error** error);

/**
 * Of an ERROR event: the parameter of the request at fault, named as by quire_error_parameter; empty if the
 * error is not about one, and for other events. *out_len, if out_len is not NULL, receives its length in
 * bytes; zero-terminated too. Borrowed until the event is freed. NULL on failure.
 */
QUIRE_API const char* quire_event_error_parameter(quire_event* event, size_t* out_len, quire_error** error);

/** Frees an event. NULL does nothing. Returns 1, or 0 on failure. */
QUIRE_API int32_t quire_event_free(quire_event* handle, quire_error** error);

#ifdef __cplusplus
}
#endif

#endif /* QUIRE_EVENT_H */
