// Jobs in a random schedule: in any order, at any time, with any other jobs, paused, next to cancelled jobs.
// Their output must not depend on it.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "core/engine/engine.h"
#include "tests/support/engine_fakes.h"

namespace quire::testing {

// Complete output of a job.
struct JobOutcome {
  Transcript said;
  std::vector<std::vector<TokenLogProb>> top_log_probs;
  std::vector<float> scores;
  std::vector<float> raw_logits;
};

// Runs one job to its end on a cache without a thread.
JobOutcome run_alone(Engine& cache, const JobRequest& request);

// Returns an empty string if the two are bit-identical, otherwise the difference.
std::string difference(const JobOutcome& outcome, const JobOutcome& expected);

struct KnownJob {
  JobRequest request;
  JobOutcome alone;
};

// Changes options so that the device and its cache are tight or generous in each respect. `least` sequences
// of options.max_seq_len tokens always fit.
FakeEngineOptions any_shape(FakeEngineOptions options, int32_t least, std::mt19937_64& random);

// Runs a random selection of `known`, some of them several times, on a cache without a thread. Returns an
// empty string if each has the same output as alone, otherwise the first difference.
std::string run_random_schedule(Engine& cache, const std::vector<KnownJob>& known, std::mt19937_64& random);

}  // namespace quire::testing
