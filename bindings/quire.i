/*
 * The C interface for Go, Java and C#: the public headers unchanged, flat functions only. The headers use the
 * same parameter names everywhere (base.h), and the typemaps match on those names, so a new function needs no
 * entry here. The thin layer of each language handles ownership and closing.
 *
 * Run from the folder bindings/: `swig -LANGUAGE ... -I../capi/include quire.i`.
 */
%module QuireNative

%{
#include <quire/quire.h>
#include <string.h>
%}

/* Widths of the integer types of the headers, independent of the width of `int` in the target language. */
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
typedef unsigned char uint8_t;
typedef unsigned long size_t;

/* The log sink is called on threads of the library, which block all signals. A language runtime that stops
 * its threads by signals could wait forever for such a thread. The progress of a load is reported on the
 * thread that loads; the typemaps of each language define a callback for it, and user_data is a number
 * that the thin layer assigns. */
%ignore quire_log_fn;
%ignore quire_runtime_options_set_log_sink;

/* These languages take events in batches, with the drain functions. */
%ignore quire_job_poll;
%ignore quire_queue_poll;

/* SWIG would convert a string constant to bytes; use quire_version_string instead. */
%ignore QUIRE_VERSION_STRING;

/* Macros that the typemaps of each language define:
 *   QUIRE_HANDLE(TYPE, NAME): a long-lived, shared object; NAME is its type in Go and C#.
 *   QUIRE_SNAPSHOT(TYPE, NAME): an object that one thread reads and frees at once. */
#if defined(SWIGGO)
%include "typemaps/go.i"
#elif defined(SWIGJAVA)
%include "typemaps/java.i"
#elif defined(SWIGCSHARP)
%include "typemaps/csharp.i"
#else
#error "quire.i has typemaps for Go, Java and C#"
#endif

QUIRE_SNAPSHOT(quire_error, ErrorHandle)
QUIRE_HANDLE(quire_runtime_options, RuntimeOptionsHandle)
QUIRE_HANDLE(quire_model_options, ModelOptionsHandle)
QUIRE_HANDLE(quire_cache_options, CacheOptionsHandle)
QUIRE_HANDLE(quire_job_request, JobRequestHandle)
QUIRE_HANDLE(quire_runtime, RuntimeHandle)
QUIRE_HANDLE(quire_model, ModelHandle)
QUIRE_HANDLE(quire_cache, CacheHandle)
QUIRE_SNAPSHOT(quire_stats, StatsHandle)
QUIRE_HANDLE(quire_job, JobHandle)
QUIRE_HANDLE(quire_queue, QueueHandle)
QUIRE_SNAPSHOT(quire_event, EventHandle)
QUIRE_HANDLE(quire_cancel, CancelHandle)
QUIRE_SNAPSHOT(quire_plan, PlanHandle)
QUIRE_HANDLE(quire_constraint, ConstraintHandle)
QUIRE_HANDLE(quire_matcher, MatcherHandle)
QUIRE_HANDLE(quire_chat_template, ChatTemplateHandle)
QUIRE_HANDLE(quire_alias, AliasHandle)
QUIRE_HANDLE(quire_response_parser, ResponseParserHandle)

%include <quire/base.h>
%include <quire/error.h>
%include <quire/version.h>
%include <quire/options.h>
%include <quire/runtime.h>
%include <quire/model.h>
%include <quire/cache.h>
%include <quire/stats.h>
%include <quire/request.h>
%include <quire/job.h>
%include <quire/queue.h>
%include <quire/event.h>
%include <quire/cancel.h>
%include <quire/plan.h>
%include <quire/constraint.h>
%include <quire/chat.h>
%include <quire/alias.h>
%include <quire/response.h>
%include <quire/diagnose.h>
