/*
 * Words that every Quire header uses: the handle types and the conventions of the whole interface.
 *
 * Handles. Every type is opaque. A handle is a token, not an address: each call looks it up and pins what it
 * stands for, so that a freed, foreign, random or wrong-typed handle is QUIRE_ERROR_BAD_HANDLE and never
 * undefined behaviour. Freeing twice is the same error; freeing NULL does nothing and succeeds. A handle
 * keeps alive what it was made from (a job its cache, a cache its model, a model its runtime), so handles may
 * be freed in any order and from any thread, a finalizer's included.
 *
 * Return values. A function returns what it is asked for:
 *   - an action returns 1 where it was done and 0 where it failed;
 *   - a question returns 1 for yes, 0 for no, and -1 where it failed;
 *   - a handle or a borrowed pointer is NULL where the call failed;
 *   - a number, count, size or id is -1 where the call failed, a double is NaN.
 *
 * Errors. Nearly every function takes `quire_error **error` last. It may be NULL. Otherwise *error is always
 * written: NULL on success, else an error object that the caller owns (quire_error_free). There is no
 * last-error state of a thread or of the process.
 *
 * Text is UTF-8 given as pointer and length in bytes, `(const char *text, size_t text_len)`; a zero byte is
 * data. Ids of tokens are int32_t, `(const int32_t *tokens, size_t num_tokens)`. A pointer may be NULL where
 * its length is 0. What is passed in is copied before the call returns.
 *
 * Results go into the caller's memory, `(T *out_..., size_t out_capacity)`, capacity counted in elements. The
 * return value is the number of elements that the whole result has. Where it exceeds out_capacity nothing at
 * all was written: call again with enough room. (NULL, 0) asks for the size. Text in such a buffer is not
 * zero-terminated. Few functions return a borrowed pointer instead; their comments say until when it holds.
 *
 * Times are int64_t nanoseconds. A timeout of 0 does not wait; QUIRE_WAIT_FOREVER (any negative value) waits
 * without limit.
 *
 * Waits. Every call that waits takes `int64_t timeout_ns, quire_cancel *cancel`. `cancel` may be NULL; once
 * it is triggered the wait ends, and what was waited for goes on. Calls that take events or wait for an end
 * answer with a number above 0 where that is here (how many events, else 1), and else with one of
 * QUIRE_WAIT_*: the end of a stream is told apart from a timeout. Calls that are to compute or load something
 * in time fail, with QUIRE_ERROR_TIMEOUT or QUIRE_ERROR_CANCELLED.
 *
 * Threads. Any function may be called from any thread at any time; each type says what happens when two
 * threads use one object. Nothing is kept per thread. No call installs a signal handler, prints, exits,
 * aborts or throws, and threads that the library starts block all signals. A thread that is cancelled with
 * pthread_cancel inside a call is cancelled after the call has returned.
 *
 * fork. In a child of fork() every call on objects of the parent fails with QUIRE_ERROR_FORKED, and freeing
 * them does nothing and succeeds. A child may use the library where the parent had no live handle.
 *
 * Callbacks. There are two, the log sink and the progress function of a load. They run without any lock of
 * the library. Inside them, calls that wait, load, create or close a runtime, model or cache fail with
 * QUIRE_ERROR_REENTRANT; all others are allowed. They must return normally: neither longjmp nor pthread_exit.
 */
#ifndef QUIRE_BASE_H
#define QUIRE_BASE_H

#include <stddef.h>
#include <stdint.h>

/* How a function is told to the compiler. QUIRE_BUILD is defined while the library itself is compiled. A
 * program may define QUIRE_API before the first include, empty where it links the library statically. */
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

/* A timeout that never passes. */
#define QUIRE_WAIT_FOREVER (-1)

/* What a wait answers where what it was for is not here. */
#define QUIRE_WAIT_TIMEOUT 0      /* the timeout passed: ask again */
#define QUIRE_WAIT_FAILED (-1)    /* *error says why */
#define QUIRE_WAIT_END (-2)       /* it will never come: all of it was taken */
#define QUIRE_WAIT_CANCELLED (-3) /* the quire_cancel of the wait was triggered */

#ifdef __cplusplus
extern "C" {
#endif

/* Why a call failed; error.h. */
typedef struct quire_error quire_error;

/* Settings of a runtime, read when it is made from them; options.h. */
typedef struct quire_runtime_options quire_runtime_options;

/* Settings of a model, read when it is loaded; options.h. */
typedef struct quire_model_options quire_model_options;

/* Settings of a cache, read when it is made from them; options.h. */
typedef struct quire_cache_options quire_cache_options;

/* Settings of a job, read when it is submitted; request.h. */
typedef struct quire_job_request quire_job_request;

/* Devices, memory budget and log of everything made from it; runtime.h. */
typedef struct quire_runtime quire_runtime;

/* Weights and tokenizer; model.h. */
typedef struct quire_model quire_model;

/* What a model and a cache will take of memory; plan.h. */
typedef struct quire_plan quire_plan;

/* What jobs are submitted to: the key/value cache of a model, and the thread that batches its jobs; cache.h.
 */
typedef struct quire_cache quire_cache;

/* A moment's figures of a cache; stats.h. */
typedef struct quire_stats quire_stats;

/* One generation; job.h. */
typedef struct quire_job quire_job;

/* One stream of the events of many jobs; queue.h. */
typedef struct quire_queue quire_queue;

/* One pulled result; event.h. */
typedef struct quire_event quire_event;

/* Stops a call that another thread waits in; cancel.h. */
typedef struct quire_cancel quire_cancel;

/* What a text has to be; constraint.h. */
typedef struct quire_constraint quire_constraint;

/* One text on its way through a constraint; constraint.h. */
typedef struct quire_matcher quire_matcher;

/* What turns a conversation into a prompt; chat.h. */
typedef struct quire_chat_template quire_chat_template;

/* A name that jobs are submitted to, and the cache behind it; alias.h. */
typedef struct quire_alias quire_alias;

/* What the bytes of an answer are; response.h. */
typedef struct quire_response_parser quire_response_parser;

#ifdef __cplusplus
}
#endif

#endif /* QUIRE_BASE_H */
