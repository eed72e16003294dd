// Two models on one device: the share of its own speed that each keeps, how shares follow weights, how a long
// prompt delays running streams, and how fast a step is aborted. Through the C interface.
//
//   Usage: share_bench shares|rhythm|cancel SMALL_MODEL LARGE_MODEL [SECONDS [DEVICE [PROMPT_TOKENS]]]
//
// - shares: both models generate, 1, 8 and 32 jobs each, alone and together, weights 1:1 and 3:1.
// - rhythm: gaps between tokens of 8 streams, alone and while the large model computes a prompt of 8,000
//   (PROMPT_TOKENS) tokens.
// - cancel: time from the cancel of such a prompt to its last event, and of a close in the middle of it.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

#include "tests/capi/capi_fixture.h"

namespace quire::testing {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int32_t kFirstToken = 100;
constexpr int32_t kNumTokens = 4000;  // ordinary tokens that both vocabularies have
constexpr int32_t kStreamTokens = 400;
constexpr int32_t kNumStreams = 8;
constexpr int kRounds = 5;  // of measurements of shares

[[noreturn]] void stop(const std::string& words) {
  std::fprintf(stderr, "share_bench: %s\n", words.c_str());
  std::exit(1);
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::vector<int32_t> make_prompt_tokens(int32_t num_tokens, uint32_t seed) {
  std::vector<int32_t> prompt;
  for (int32_t i = 0; i < num_tokens; ++i) {
    seed = seed * 1664525U + 1013904223U;
    prompt.push_back(kFirstToken + static_cast<int32_t>((seed >> 8) % kNumTokens));
  }
  return prompt;
}

int64_t num_steps(quire_cache* cache) {
  const OwnedStats stats(quire_cache_stats(cache, nullptr));
  return quire_stats_steps(stats.get(), nullptr);
}

// Time of a prompt, and the steps of its cache meanwhile.
struct PromptRun {
  double seconds = 0.0;
  int64_t num_steps = 0;
};

struct CacheSizes {
  int64_t max_tokens = 0;
  int32_t max_jobs = 0;
};

OwnedCache open_cache(quire_model* model, const CacheSizes& sizes) {
  const OwnedCacheOptions options(quire_cache_options_create(nullptr));
  quire_cache_options_set_max_tokens(options.get(), sizes.max_tokens, nullptr);
  quire_cache_options_set_max_batch_size(options.get(), sizes.max_jobs, nullptr);
  Report report;
  OwnedCache cache(quire_cache_create(model, options.get(), report.out()));
  if (!cache) stop(report.message());
  return cache;
}

// Jobs of one cache that generate continuously, each replaced when it ends, on a separate thread.
class Streams {
 public:
  Streams(quire_runtime* runtime, quire_cache* cache, int32_t num_jobs)
      : cache_(cache), queue_(quire_queue_create(runtime, nullptr)) {
    quire_job_request_set_queue(request_.get(), queue_.get(), nullptr);
    jobs_.resize(static_cast<size_t>(num_jobs));
    last_.resize(jobs_.size());
    for (size_t i = 0; i < jobs_.size(); ++i) submit(i);
    thread_ = std::thread([this] { run(); });
  }
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;
  ~Streams() {
    stopping_ = true;
    for (const OwnedJob& job : jobs_) quire_job_cancel(job.get(), nullptr);
    thread_.join();
  }

  int64_t num_tokens() const { return num_tokens_; }
  void wait_until_all_generate() const {
    while (num_tokens_ < 4 * static_cast<int64_t>(jobs_.size()))
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  // Starts or stops recording the seconds between tokens of one job.
  void measure_gaps(bool measures) { measures_ = measures; }
  std::vector<double> gaps() const { return gaps_; }  // valid once measuring has ended

 private:
  void submit(size_t place) {
    const auto prompt = make_prompt_tokens(8, static_cast<uint32_t>(++num_submitted_));
    quire_job_request_set_prompt_tokens(request_.get(), prompt.data(), prompt.size(), nullptr);
    quire_job_request_set_user_data(request_.get(), place, nullptr);
    Report report;
    jobs_[place] = OwnedJob(quire_job_submit(cache_, request_.get(), report.out()));
    if (!jobs_[place]) stop(report.message());
    last_[place] = {};
  }

  void run() {
    for (size_t alive = jobs_.size(); alive > 0;) {
      const OwnedEvent event(next_event(queue_.get(), QUIRE_WAIT_FOREVER, nullptr));
      const auto place = static_cast<size_t>(quire_event_user_data(event.get(), nullptr));
      take(event.get(), place);
      if (quire_event_finish_reason(event.get(), nullptr) == QUIRE_FINISH_NONE) continue;
      if (stopping_) {
        --alive;
      } else {
        submit(place);
      }
    }
  }

  void take(quire_event* event, size_t place) {
    const int64_t tokens = quire_event_tokens(event, nullptr, 0, nullptr);
    if (tokens <= 0) return;
    num_tokens_ += tokens;
    const auto now = Clock::now();
    if (measures_ && last_[place] != Clock::time_point{})
      gaps_.push_back(std::chrono::duration<double>(now - last_[place]).count());
    last_[place] = now;
  }

  quire_cache* cache_;
  OwnedQueue queue_;
  OwnedRequest request_ = make_request("", kStreamTokens);
  std::vector<OwnedJob> jobs_;
  std::vector<Clock::time_point> last_;
  std::vector<double> gaps_;
  std::atomic<bool> measures_{false};
  std::atomic<bool> stopping_{false};
  std::atomic<int64_t> num_tokens_{0};
  int64_t num_submitted_ = 0;
  std::thread thread_;
};

struct Two {
  double small = 0.0;
  double large = 0.0;
};

struct Choice {
  const char* small = nullptr;
  const char* large = nullptr;
  double seconds = 5.0;
  std::string device = "cpu";
  int32_t prompt_tokens = 8000;
};

// Opens a runtime with a thread for each processor, as a host would.
OwnedRuntime open_runtime() {
  Report report;
  OwnedRuntime runtime(quire_runtime_create(nullptr, report.out()));
  if (!runtime) stop(report.message());
  return runtime;
}

OwnedModel open_model(quire_runtime* runtime, const std::string& path, const std::string& device) {
  const OwnedModelOptions options(quire_model_options_create(nullptr));
  quire_model_options_set_path(options.get(), path.data(), path.size(), nullptr);
  quire_model_options_set_device(options.get(), device.data(), device.size(), nullptr);
  Report report;
  OwnedModel model(quire_model_load(runtime, options.get(), QUIRE_WAIT_FOREVER, nullptr, report.out()));
  if (!model) stop(report.message());
  return model;
}

class Bench {
 public:
  explicit Bench(const Choice& choice)
      : small_(open_model(runtime_.get(), choice.small, choice.device)),
        large_(open_model(runtime_.get(), choice.large, choice.device)),
        seconds_(choice.seconds),
        prompt_tokens_(choice.prompt_tokens) {}

  void shares() {
    std::printf(
        "jobs    alone: small  large tok/s | both 1:1, of alone: small large sum (least to most) | "
        "3:1, share of small\n");
    for (const int32_t num_jobs : {1, 8, 32}) shares_of(num_jobs);
  }

  void rhythm() {
    const PromptRun alone = run_prompt(nullptr);
    std::printf("prompt of %d alone: %.1f tok/s, %lld steps\n", prompt_tokens_,
                prompt_tokens_ / alone.seconds, static_cast<long long>(alone.num_steps));
    rhythm_of("streams of the same model", large_.get(), alone.seconds);
    rhythm_of("streams of the small model", small_.get(), alone.seconds);
  }

  void cancel() {
    for (int round = 0; round < 5; ++round) std::printf("cancel: %.1f ms\n", 1e3 * seconds_of_cancel());
    const OwnedCache cache = open_cache(large_.get(), {prompt_tokens_ + 192, 8});
    const OwnedJob job = submit_prompt(cache.get(), 99);
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
    const auto start = Clock::now();
    quire_cache_close(cache.get(), QUIRE_WAIT_FOREVER, nullptr, nullptr);
    std::printf("close: %.1f ms\n", 1e3 * seconds_since(start));
  }

 private:
  // Measures alone and together in turns, so that other load on the machine affects both alike. Prints
  // medians.
  void shares_of(int32_t num_jobs) {
    std::vector<double> small, large, small_share, large_share, sum, of_three;
    for (int round = 0; round < kRounds; ++round) {
      const double a = tokens_per_second(num_jobs, true, false, 1.0).small;
      const Two equal = tokens_per_second(num_jobs, true, true, 1.0);
      const double b = tokens_per_second(num_jobs, false, true, 1.0).large;
      const Two three = tokens_per_second(num_jobs, true, true, 3.0);
      small.push_back(a);
      large.push_back(b);
      small_share.push_back(equal.small / a);
      large_share.push_back(equal.large / b);
      sum.push_back(equal.small / a + equal.large / b);
      of_three.push_back(three.small / a / (three.small / a + three.large / b));
    }
    std::printf("%4d  %8.1f %8.1f | %.3f %.3f  %.3f (%.3f to %.3f) | %.1f %%\n", num_jobs,
                quantile(small, 0.5), quantile(large, 0.5), quantile(small_share, 0.5),
                quantile(large_share, 0.5), quantile(sum, 0.5), quantile(sum, 0.0), quantile(sum, 1.0),
                100.0 * quantile(of_three, 0.5));
    std::fflush(stdout);
  }

  Two tokens_per_second(int32_t num_jobs, bool with_small, bool with_large, double weight_of_small) {
    const CacheSizes sizes{int64_t{512} * num_jobs, num_jobs};
    const OwnedCache small = open_cache(small_.get(), sizes);
    const OwnedCache large = open_cache(large_.get(), sizes);
    if (weight_of_small != 1.0) quire_cache_set_device_weight(small.get(), weight_of_small, nullptr);
    std::optional<Streams> of_small;
    std::optional<Streams> of_large;
    if (with_small) of_small.emplace(runtime_.get(), small.get(), num_jobs);
    if (with_large) of_large.emplace(runtime_.get(), large.get(), num_jobs);
    for (const auto* streams : {&of_small, &of_large}) {
      if (streams->has_value()) (*streams)->wait_until_all_generate();
    }
    const int64_t small_before = of_small ? of_small->num_tokens() : 0;
    const int64_t large_before = of_large ? of_large->num_tokens() : 0;
    const auto start = Clock::now();
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds_));
    Two tokens;
    const double took = seconds_since(start);
    if (of_small) tokens.small = static_cast<double>(of_small->num_tokens() - small_before) / took;
    if (of_large) tokens.large = static_cast<double>(of_large->num_tokens() - large_before) / took;
    return tokens;
  }

  OwnedJob submit_prompt(quire_cache* cache, uint32_t seed) const {
    const OwnedRequest request = make_request("", 1);
    const auto prompt = make_prompt_tokens(prompt_tokens_, seed);
    quire_job_request_set_prompt_tokens(request.get(), prompt.data(), prompt.size(), nullptr);
    Report report;
    OwnedJob job(quire_job_submit(cache, request.get(), report.out()));
    if (!job) stop(report.message());
    return job;
  }

  // Runs a prompt in the given cache of the large model, or in its own cache.
  PromptRun run_prompt(quire_cache* beside) {
    const OwnedCache own =
        beside == nullptr ? open_cache(large_.get(), {prompt_tokens_ + 192, 16}) : OwnedCache();
    quire_cache* const cache = beside == nullptr ? own.get() : beside;
    const int64_t before = num_steps(cache);
    const auto start = Clock::now();
    const OwnedJob job = submit_prompt(cache, ++seed_);
    collect(job.get());
    return {seconds_since(start), num_steps(cache) - before};
  }

  void rhythm_of(const char* name, quire_model* model, double prompt_alone) {
    const OwnedCache cache = open_cache(model, {prompt_tokens_ + 192 + 512 * kNumStreams, 16});
    Streams alone(runtime_.get(), cache.get(), kNumStreams);
    std::this_thread::sleep_for(std::chrono::seconds(1));
    alone.measure_gaps(true);
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds_));
    alone.measure_gaps(false);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    const size_t num_before = alone.gaps().size();
    alone.measure_gaps(true);
    const int64_t steps_before = num_steps(cache.get());
    const PromptRun beside = run_prompt(model == large_.get() ? cache.get() : nullptr);
    const int64_t steps_beside = num_steps(cache.get()) - steps_before;
    alone.measure_gaps(false);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    const std::vector<double> gaps = alone.gaps();
    const auto middle = gaps.begin() + static_cast<std::ptrdiff_t>(num_before);
    const std::vector<double> before(gaps.begin(), middle);
    const std::vector<double> during(middle, gaps.end());
    const double before_99 = quantile(before, 0.99);
    const double during_99 = quantile(during, 0.99);
    std::printf(
        "%s: gap p50 %.1f p99 %.1f ms; beside the prompt p50 %.1f p99 %.1f max %.1f ms (p99 x %.2f, "
        "p99 / p50 alone x %.2f); the prompt at %.1f tok/s, %.2f of alone; %lld steps of its cache, %lld of "
        "the "
        "streams'\n",
        name, 1e3 * quantile(before, 0.5), 1e3 * before_99, 1e3 * quantile(during, 0.5), 1e3 * during_99,
        1e3 * quantile(during, 1.0), during_99 / before_99, during_99 / quantile(before, 0.5),
        prompt_tokens_ / beside.seconds, prompt_alone / beside.seconds,
        static_cast<long long>(beside.num_steps), static_cast<long long>(steps_beside));
    std::fflush(stdout);
  }

  static double quantile(std::vector<double> values, double share) {
    if (values.empty()) return 0.0;
    const auto place = static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
    std::nth_element(values.begin(), values.begin() + place, values.end());
    return values[static_cast<size_t>(place)];
  }

  double seconds_of_cancel() {
    const OwnedCache cache = open_cache(large_.get(), {prompt_tokens_ + 192, 8});
    const OwnedJob job = submit_prompt(cache.get(), ++seed_);
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
    const auto start = Clock::now();
    quire_job_cancel(job.get(), nullptr);
    collect(job.get());
    return seconds_since(start);
  }

  OwnedRuntime runtime_ = open_runtime();
  OwnedModel small_;
  OwnedModel large_;
  const double seconds_;
  const int32_t prompt_tokens_;
  uint32_t seed_ = 1000;
};

}  // namespace
}  // namespace quire::testing

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr,
                 "usage: share_bench shares|rhythm|cancel SMALL_MODEL LARGE_MODEL "
                 "[SECONDS [DEVICE [PROMPT_TOKENS]]]\n");
    return 2;
  }
  quire::testing::Choice choice;
  choice.small = argv[2];
  choice.large = argv[3];
  if (argc > 4) choice.seconds = std::atof(argv[4]);
  if (argc > 5) choice.device = argv[5];
  if (argc > 6) choice.prompt_tokens = std::atoi(argv[6]);
  quire::testing::Bench bench(choice);
  if (std::strcmp(argv[1], "shares") == 0) bench.shares();
  if (std::strcmp(argv[1], "rhythm") == 0) bench.rhythm();
  if (std::strcmp(argv[1], "cancel") == 0) bench.cancel();
  return 0;
}
