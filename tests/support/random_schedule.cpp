#include "tests/support/random_schedule.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include <fmt/core.h>

#include "core/engine/loop/engine_thread.h"

namespace quire::testing {

namespace {

template <typename T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

bool same_bits(const std::vector<std::vector<TokenLogProb>>& a,
               const std::vector<std::vector<TokenLogProb>>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& one, const auto& other) { return same_bits(one, other); });
}

void read(Job& job, JobOutcome& outcome) {
  while (auto event = job.poll(Duration{0})) {
    auto& tops = outcome.top_log_probs;
    tops.insert(tops.end(), event->top_log_probs.begin(), event->top_log_probs.end());
    add_event(outcome.said, std::move(*event));
  }
  if (outcome.said.num_terminal == 0) return;
  outcome.scores = job.scores();
  outcome.raw_logits = job.raw_logits();
}

class Schedule {
 public:
  Schedule(Engine& cache, const std::vector<KnownJob>& known, std::mt19937_64& random)
      : cache_(cache), known_(known), random_(random), left_(2 + below(2 * known.size())) {}

  std::string run() {
    while (left_ > 0 || !running_.empty()) {
      if (left_ > 0 && (running_.empty() || below(3) == 0)) submit();
      if (!running_.empty()) disturb(running_[below(running_.size())]);
      cache_.thread().run_once();
      for (Running& running : running_) read(*running.job, running.outcome);
      const std::string problem = settle();
      if (!problem.empty()) return problem;
    }
    return {};
  }

 private:
  struct Running {
    std::shared_ptr<Job> job;
    size_t known_idx;
    bool paused = false;
    bool victim = false;  // to be cancelled; runs only to disturb the others
    JobOutcome outcome{};
  };

  size_t below(size_t limit) { return static_cast<size_t>(random_() % limit); }

  // Submits a job with random settings that do not affect its output.
  void submit() {
    const size_t known_idx = below(known_.size());
    JobRequest request = known_[known_idx].request;
    request.priority = static_cast<int32_t>(below(3));
    request.reserve_whole = below(5) == 0 && request.negative_prompt.empty();
    request.reuse_prefix = below(5) != 0;
    request.publish_pages = below(5) != 0;
    request.name_space = below(4) == 0 ? "other" : "";
    running_.push_back({cache_.submit(request), known_idx});
    running_.back().victim = below(5) == 0;
    --left_;
  }

  void disturb(Running& running) {
    if (running.paused || below(20) == 0) {
      running.paused ? running.job->resume() : running.job->pause();
      running.paused = !running.paused;
    }
    if (running.victim && below(10) == 0) running.job->cancel();
  }

  // Compares and removes finished jobs.
  std::string settle() {
    std::string problem;
    std::erase_if(running_, [&](const Running& running) {
      if (running.outcome.said.num_terminal == 0) return false;
      const bool cancelled = running.outcome.said.terminal.reason == FinishReason::cancelled;
      const std::string differs = difference(running.outcome, known_[running.known_idx].alone);
      if (!differs.empty() && !(running.victim && cancelled) && problem.empty()) {
        problem = fmt::format("job {}: {}", running.known_idx, differs);
      }
      return true;
    });
    return problem;
  }

  Engine& cache_;
  const std::vector<KnownJob>& known_;
  std::mt19937_64& random_;
  size_t left_;
  std::vector<Running> running_;
};

}  // namespace

JobOutcome run_alone(Engine& cache, const JobRequest& request) {
  const auto job = cache.submit(request);
  JobOutcome outcome;
  while (outcome.said.num_terminal == 0) {
    cache.thread().run_once();
    read(*job, outcome);
  }
  return outcome;
}

std::string difference(const JobOutcome& outcome, const JobOutcome& expected) {
  if (outcome.said.terminal.reason != expected.said.terminal.reason) return "it ends otherwise";
  if (outcome.said.tokens != expected.said.tokens) return "other tokens";
  if (outcome.said.text != expected.said.text) return "another text";
  if (!same_bits(outcome.said.log_probs, expected.said.log_probs)) return "other log-probabilities";
  if (!same_bits(outcome.top_log_probs, expected.top_log_probs)) return "other top log-probabilities";
  if (!same_bits(outcome.scores, expected.scores)) return "other scores";
  if (!same_bits(outcome.raw_logits, expected.raw_logits)) return "other raw logits";
  return {};
}

FakeEngineOptions any_shape(FakeEngineOptions options, int32_t least, std::mt19937_64& random) {
  const auto below = [&](int32_t limit) {
    return static_cast<int32_t>(random() % static_cast<uint32_t>(limit));
  };
  ExecutorLimits& limits = options.limits;
  limits.page_tokens = 1 + below(20);
  limits.max_pages_per_sequence = options.max_seq_len / limits.page_tokens + 1;
  limits.num_pages = least * limits.max_pages_per_sequence + below(4 * limits.max_pages_per_sequence);
  limits.max_sequences = least + below(12);
  limits.max_tokens = limits.max_sequences + below(100);
  limits.max_logit_rows = limits.max_sequences + below(40);
  options.cache.max_chunk_tokens = below(2) == 0 ? least + below(30) : 0;
  limits.makes_draws = below(2) == 0;
  limits.follows = limits.makes_draws && below(2) == 0;
  return options;
}

std::string run_random_schedule(Engine& cache, const std::vector<KnownJob>& known, std::mt19937_64& random) {
  return Schedule(cache, known, random).run();
}

}  // namespace quire::testing
