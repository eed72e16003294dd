// Jobs in a random schedule: in any order, at any moment, in any company, paused, beside jobs that are
// cancelled. What each says must not depend on it.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "core/engine/engine.h"
#include "tests/support/engine_fakes.h"

namespace quire::testing {

// All that a job leaves behind.
struct JobOutcome {
  Transcript said;
  std::vector<std::vector<TokenLogProb>> top_log_probs;
  std::vector<float> scores;
  std::vector<float> raw_logits;
};

// Runs one job to its end on a cache without a thread.
JobOutcome run_alone(Engine& cache, const JobRequest& request);

// Empty where the two are the same to the last bit, else what differs.
std::string difference(const JobOutcome& outcome, const JobOutcome& expected);

struct KnownJob {
  JobRequest request;
  JobOutcome alone;
};

// Runs a random selection of `known`, each perhaps several times, on a cache without a thread. Empty where
// each said what it says alone, else the first difference.
std::string run_random_schedule(Engine& cache, const std::vector<KnownJob>& known, std::mt19937_64& random);

}  // namespace quire::testing
