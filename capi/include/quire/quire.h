/*
 * Quire: an inference engine for large language models that runs inside the process that links it. This
 * header includes the whole interface; base.h documents its conventions.
 *
 *   runtime  ->  model  ->  cache  ->  job  ->  event
 *
 * Load a model with a runtime, create a cache for it, submit a request to the cache as a job, and take the
 * events of the job.
 */
#ifndef QUIRE_QUIRE_H
#define QUIRE_QUIRE_H

#include <quire/alias.h>
#include <quire/base.h>
#include <quire/cache.h>
#include <quire/cancel.h>
#include <quire/chat.h>
#include <quire/constraint.h>
#include <quire/diagnose.h>
#include <quire/error.h>
#include <quire/event.h>
#include <quire/job.h>
#include <quire/model.h>
#include <quire/options.h>
#include <quire/plan.h>
#include <quire/queue.h>
#include <quire/request.h>
#include <quire/response.h>
#include <quire/runtime.h>
#include <quire/stats.h>
#include <quire/version.h>

#endif /* QUIRE_QUIRE_H */
