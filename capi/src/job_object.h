// Object of a quire_job.
#pragma once

#include <memory>

#include "capi/src/cache_object.h"
#include "core/engine/job.h"
#include "core/engine/jobs/job_request.h"

namespace quire::capi {

struct JobObject final : Object {
  JobObject(std::shared_ptr<const CacheShare> the_cache, std::shared_ptr<Job> the_job, JobKind the_kind)
      : cache(std::move(the_cache)),
        job(std::move(the_job)),
        kind(the_kind),
        counted(cache->model->runtime->census(), HandleType::job) {}
  // Wakes threads that wait for the job, by cancelling it: it ends within a step.
  void close() noexcept override { job->cancel(); }

  // Declared before the job, so that the job never drops the last reference to its cache: that may wait.
  const std::shared_ptr<const CacheShare> cache;
  const std::shared_ptr<Job> job;
  const JobKind kind;
  const CensusEntry counted;
};

template <>
struct HandleTraits<quire_job> {
  using Object = JobObject;
  static constexpr HandleType type = HandleType::job;
};

}  // namespace quire::capi
