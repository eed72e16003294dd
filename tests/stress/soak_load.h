// Clients that use a cache as services do, including misbehaving ones: at least 20 % of their jobs are
// cancelled, 5 % abandoned, 5 % invalid and 2 % poisoned. All others are compared with the output of the same
// request alone.
#pragma once

#include <atomic>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/capi/capi_fixture.h"

namespace quire::testing {

struct SoakCounts {
  std::atomic<int64_t> checked{0};  // had the same output as alone
  std::atomic<int64_t> cancelled{0};
  std::atomic<int64_t> abandoned{0};
  std::atomic<int64_t> invalid{0};
  std::atomic<int64_t> poisoned{0};
  std::atomic<int64_t> disturbed{0};  // forked, paused, rewound, moved in the queue
  int64_t total() const { return checked + cancelled + abandoned + invalid + poisoned + disturbed; }
};

class SoakLoad {
 public:
  // Computes the output of each request alone.
  SoakLoad(quire_runtime* runtime, quire_model* model, quire_cache* cache, int32_t poison);

  // Runs one client: `num_jobs` jobs, one after another or a few at a time, chosen by the seed. An error
  // fails the test and reports the seed.
  void run_client(uint32_t seed, int num_jobs);
  const SoakCounts& counts() const { return counts_; }

 private:
  // Request with the number of tokens of its output.
  struct Task {
    int32_t prompt_idx = 0;
    uint64_t seed = 0;
    int32_t max_new_tokens = 0;
    std::vector<int32_t> answer;
  };
  using Random = std::mt19937;

  static int32_t below(Random& random, int32_t limit) {
    return static_cast<int32_t>(random() % static_cast<Random::result_type>(limit));
  }
  OwnedRequest request_of(const Task& task) const;
  OwnedRequest random_settings(Random& random, const Task& task) const;
  const Task& any_task(Random& random) const;
  OwnedJob submit(quire_job_request* request) const;
  void expect_answer(const Task& task, const Collected& collected);
  void expect_beginning(const Task& task, const Collected& collected) const;

  void ask(Random& random);
  void ask_through_queue(Random& random);
  void cancel(Random& random);
  void abandon(Random& random);
  void submit_invalid(Random& random);
  void submit_poisoned(Random& random);
  void disturb(Random& random);

  quire_runtime* runtime_;
  quire_model* model_;
  quire_cache* cache_;
  int32_t poison_;
  std::vector<std::string> prompts_;
  std::vector<Task> tasks_;
  SoakCounts counts_;
};

}  // namespace quire::testing
