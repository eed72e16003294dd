/*
 * Handle types and conventions that every Quire header uses.
 *
 * Handles. Every type is opaque. A handle is a number, not an address. Each call looks the handle up and
 * keeps its object alive until the call returns. A freed, foreign, random or wrong-typed handle therefore
 * causes QUIRE_ERROR_BAD_HANDLE and never undefined behaviour. Freeing a handle twice causes the same error;
 * freeing NULL does nothing and succeeds. A handle keeps alive the object it was made from (a job its
 * cache, a cache its model, a model its runtime). Handles may be freed in any order and from any thread,
 * including a finalizer thread.
 *
 * Return values depend on the kind of function:
 *   - an action returns 1, or 0 on failure;
 *   - a yes-or-no query returns 1 for yes, 0 for no, or -1 on failure;
 *   - a handle or a borrowed pointer is NULL on failure;
 *   - a number, count, size or id is -1 on failure, and a double is NaN.
 *
 * Errors. Nearly every function takes `quire_error **error` as its last parameter. It may be NULL.
 * Otherwise *error is always written: NULL on success, or an error object that the caller owns
 * (quire_error_free). There is no last-error state per thread or per process.
 *
 * Text is UTF-8, passed as a pointer and a length in bytes: `(const char *text, size_t text_len)`. A zero
 * byte is data. Token ids are int32_t: `(const int32_t *tokens, size_t num_tokens)`. A pointer may be NULL
 * if its length is 0. All input is copied before the call returns.
 *
 * Results are written to memory of the caller, `(T *out_..., size_t out_capacity)`, with the capacity
 * counted in elements. The function returns the number of elements of the whole result. If that exceeds
 * out_capacity, nothing is written: call again with a larger buffer. Pass (NULL, 0) to query the size. Text
 * in such a buffer is not zero-terminated. A few functions return a borrowed pointer instead; their
 * comments state how long it is valid.
 *
 * Times are int64_t nanoseconds. A timeout of 0 does not wait. QUIRE_WAIT_FOREVER, or any other negative
 * value, waits without limit.
 *
 * Waits. Every call that waits takes `int64_t timeout_ns, quire_cancel *cancel`. `cancel` may be NULL.
 * Triggering it ends the wait but not the awaited work, unless the function documents otherwise. Calls that
 * take events or wait for an end return a number above 0 on success: the number of events, or 1. Otherwise
 * they return one of QUIRE_WAIT_*, which distinguishes the end of a stream from a timeout. Calls that
 * compute or load something fail with QUIRE_ERROR_TIMEOUT or QUIRE_ERROR_CANCELLED instead.
 *
 * Threads. Any function may be called from any thread at any time. Each header documents what happens if
 * two threads use one object. The library keeps no per-thread state. No call installs a signal handler,
 * prints, exits, aborts or throws. Threads started by the library block all signals. If a thread is
 * cancelled with pthread_cancel inside a call, the cancellation takes effect after the call has returned.
 * A thread that calls the library needs a stack of 256 KiB, of which the host has used at most 32 KiB.
 *
 * fork. In a child of fork(), every call on objects of the parent fails with QUIRE_ERROR_FORKED, except
 * that freeing them does nothing and succeeds. A child may use the library if the parent had no live
 * handle.
 *
 * Callbacks. There are two: the log sink and the progress function of a load. They run without any lock of
 * the library held. Inside them, calls that wait, or that load, create or close a runtime, model or cache,
 * fail with QUIRE_ERROR_REENTRANT. All other calls are allowed. A callback must return normally; longjmp
 * and pthread_exit are not allowed.
 */
#ifndef QUIRE_BASE_H
#define QUIRE_BASE_H

#include <stddef.h>
#include <stdint.h>

/* Attributes of exported functions. QUIRE_BUILD is defined while the library itself is compiled. A
 * program may define QUIRE_API before the first include; define it empty to link the library statically. */
#ifndef QUIRE_API
#if defined(_WIN32) && defined(QUIRE_BUILD)
#define QUIRE_API __declspec(dllexport)
#elif defined(_WIN32)
#define QUIRE_API __declspec(dllimport)
#elif defined(__GNUC__) || defined(__clang__)
#define QUIRE_API __attribute__((visibility("default")))
#else
#define QUIRE_API
#endif
#endif

/* Timeout that never passes. */
#define QUIRE_WAIT_FOREVER (-1)

/* Results of a wait without an event. */
#define QUIRE_WAIT_TIMEOUT 0      /* the timeout passed; the call may be repeated */
#define QUIRE_WAIT_FAILED (-1)    /* the call failed; *error holds the reason */
#define QUIRE_WAIT_END (-2)       /* the stream has ended; everything was taken */
#define QUIRE_WAIT_CANCELLED (-3) /* the quire_cancel of the wait was triggered */

#ifdef __cplusplus
extern "C" {
#endif

/* Reason why a call failed; see error.h. */
typedef struct quire_error quire_error;

/* Settings of a runtime, read when the runtime is created; see options.h. */
typedef struct quire_runtime_options quire_runtime_options;

/* Settings of a model, read when the model is loaded; see options.h. */
typedef struct quire_model_options quire_model_options;

/* Settings of a cache, read when the cache is created; see options.h. */
typedef struct quire_cache_options quire_cache_options;

/* Settings of a job, read when the job is submitted; see request.h. */
typedef struct quire_job_request quire_job_request;

/* Devices, memory budget and log of everything created from it; see runtime.h. */
typedef struct quire_runtime quire_runtime;

/* Weights and tokenizer; see model.h. */
typedef struct quire_model quire_model;

/* Memory that a model and a cache will take; see plan.h. */
typedef struct quire_plan quire_plan;

/* KV cache of a model and the thread that batches its jobs; see cache.h. */
typedef struct quire_cache quire_cache;

/* Statistics of a cache at one moment; see stats.h. */
typedef struct quire_stats quire_stats;

/* One submitted piece of work, such as a generation; see job.h. */
typedef struct quire_job quire_job;

/* One stream of the events of many jobs; see queue.h. */
typedef struct quire_queue quire_queue;

/* One piece of a result, taken from a job or queue; see event.h. */
typedef struct quire_event quire_event;

/* Switch that ends a call another thread waits in; see cancel.h. */
typedef struct quire_cancel quire_cancel;

/* Schema, pattern or grammar that generated text must match; see constraint.h. */
typedef struct quire_constraint quire_constraint;

/* State of one text that is checked against a constraint; see constraint.h. */
typedef struct quire_matcher quire_matcher;

/* Template that turns a conversation into a prompt; see chat.h. */
typedef struct quire_chat_template quire_chat_template;

/* Name that jobs are submitted to, with an exchangeable cache; see alias.h. */
typedef struct quire_alias quire_alias;

/* Parser that splits an answer into text, reasoning and tool calls; see response.h. */
typedef struct quire_response_parser quire_response_parser;

#ifdef __cplusplus
}
#endif

#endif /* QUIRE_BASE_H */
