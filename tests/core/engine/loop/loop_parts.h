// The parts of a StepLoop on a fake device, each reachable by itself. Jobs come from an engine without a
// thread, which is never stepped.
#pragma once

#include <memory>
#include <utility>

#include <gtest/gtest.h>

#include "core/engine/loop/batch_builder.h"
#include "core/engine/loop/commit.h"
#include "core/engine/loop/look_ahead.h"
#include "core/engine/loop/step_planning.h"
#include "core/engine/loop/step_timing.h"
#include "core/engine/loop/token_sampling.h"
#include "core/engine/loop/verify.h"
#include "core/engine/scheduler/policy_limits.h"
#include "tests/support/engine_fakes.h"

namespace quire::testing {

inline const TokenIds kPrompt{1, 2, 3, 4, 5};

struct LoopOptions {
  bool draws_on_device = false;  // and computes steps ahead
  int32_t max_chunk_tokens = 0;
  int32_t max_running_jobs = 0;
};

class LoopParts {
 public:
  explicit LoopParts(const LoopOptions& options = {})
      : engine(engine_options(options)),
        parts(make_parts(options)),
        executor(static_cast<FakeExecutor&>(*parts.executor)),
        pages(*engine.cache->runtime(), parts, thread().options()),
        jobs({*engine.cache->runtime(), thread().options(), executor.limits(),
              policy_limits(executor.limits(), thread().options()), parts.num_tokens, thread().queue(),
              pages}),
        timing(jobs.context(), {}, plan),
        planning(jobs, pages.kv(), jobs.context().policy, timing),
        ahead(executor, jobs, planning, pages.kv()),
        sampling(executor, parts.num_tokens),
        verify(executor, sampling),
        commit(engine.cache->runtime()->clock(), jobs, pages.kv()) {}

  EngineThread& thread() { return engine.cache->thread(); }

  // Submits a job and passes everything in the queue to `jobs`.
  std::shared_ptr<Job> submit(JobRequest request) {
    std::shared_ptr<Job> job = engine.cache->submit(std::move(request));
    take_in();
    return job;
  }
  void take_in() {
    QueuedWork queued_work;
    thread().queue().take(queued_work);
    jobs.take_in(queued_work);
  }
  JobRecord* record(const Job& job) { return jobs.find(job.id()); }

  // Builds the batch of `plan` and computes it up to its draws.
  Drawn compute(Reservation& reservation) {
    build_batch(plan, reservation.copies(), table_shape(executor.limits(), pages.kv()), batch);
    const Ticket ticket = ahead.forward(plan, batch);
    sampling.draw(plan, ticket);
    return executor.wait(ticket);
  }
  // Plans, computes and verifies a step without a commit. Returns false if nothing can run.
  bool verify_step() {
    jobs.read_clock();
    if (!planning.plan(plan)) return false;
    Reservation reservation = pages.kv().reserve(plan);
    const Drawn drawn = compute(reservation);
    verify.verify(plan, drawn);
    return true;
  }
  // Plans a step and takes it to its end. Returns false if nothing can run.
  bool step() {
    jobs.read_clock();
    if (!planning.plan(plan)) return false;
    Reservation reservation = pages.kv().reserve(plan);
    const Drawn drawn = compute(reservation);
    verify.verify(plan, drawn);
    reservation.commit();
    commit.commit(plan);
    jobs.sweep();
    return true;
  }

  SimulatedClock clock;
  FakeEngine engine;
  EngineParts parts;
  FakeExecutor& executor;
  EnginePages pages;
  LiveJobs jobs;
  StepPlan plan;
  StepTiming timing;
  StepPlanning planning;
  LookAhead ahead;
  TokenSampling sampling;
  Verify verify;
  Commit commit;
  Batch batch;

 private:
  FakeEngineOptions engine_options(const LoopOptions& options) {
    FakeEngineOptions out;
    out.clock = &clock;
    out.cache.start_thread = false;
    out.cache.max_chunk_tokens = options.max_chunk_tokens;
    out.cache.max_running_jobs = options.max_running_jobs;
    if (options.draws_on_device) make_drawing(out.limits);
    return out;
  }
  EngineParts make_parts(const LoopOptions& options) {
    EngineParts out;
    ExecutorLimits limits = small_device();
    if (options.draws_on_device) make_drawing(limits);
    out.executor = std::make_unique<FakeExecutor>(limits);
    out.num_tokens = limits.vocab_size;
    out.max_seq_len = 200;
    return out;
  }
};

inline TokenIds drawn_tokens(const JobRecord& job) {
  TokenIds tokens;
  for (const SampledToken& sampled : job.step.drawn) tokens.push_back(sampled.token);
  return tokens;
}

}  // namespace quire::testing
