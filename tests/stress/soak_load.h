// Clients that use a cache as services do, the misbehaving ones included: of their jobs at least 20 % are
// cancelled, 5 % abandoned, 5 % invalid and 2 % poisoned. All others are compared with what the same request
// says alone.
#pragma once

#include <atomic>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/capi/capi_fixture.h"

namespace quire::testing {

struct SoakCounts {
  std::atomic<int64_t> checked{0};  // said what they say alone
  std::atomic<int64_t> cancelled{0};
  std::atomic<int64_t> abandoned{0};
  std::atomic<int64_t> invalid{0};
  std::atomic<int64_t> poisoned{0};
  std::atomic<int64_t> disturbed{0};  // forked, paused, rewound, moved in the queue
  int64_t total() const { return checked + cancelled + abandoned + invalid + poisoned + disturbed; }
};

class SoakLoad {
 public:
  // Learns what each request says alone.
  SoakLoad(quire_runtime* runtime, quire_model* model, quire_cache* cache, int32_t poison);

  // One client: `num_jobs` jobs, one after another or a few at a time, decided by the seed. What goes wrong
  // fails the test and names the seed.
  void run_client(uint32_t seed, int num_jobs);
  const SoakCounts& counts() const { return counts_; }

 private:
  // A request and the tokens of its answer.
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
