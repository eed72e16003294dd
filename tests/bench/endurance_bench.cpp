// Measures whether speed decays: overlapping jobs without an idle moment, a million by default, in a cache
// that is full after the first few, so that every prompt evicts cached pages. Prompts share prefixes. Prints
// the processor time of a thousand jobs at the start, on the way and at the end. Usage: endurance_bench
// [MODEL_DIR [JOBS]]; the default is a model so small that the engine does most of the work.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>
#include <vector>

#include "tests/capi/capi_fixture.h"

namespace quire::testing {
namespace {

constexpr int kJobsAtOnce = 32;
constexpr int64_t kWindow = 1000;   // jobs that are timed together
constexpr size_t kCompared = 100;   // windows at each end that are compared
constexpr int32_t kFirstToken = 3;  // after the special tokens
constexpr int32_t kLastToken = 120;

[[noreturn]] void stop(const std::string& words) {
  std::fprintf(stderr, "endurance_bench: %s\n", words.c_str());
  std::exit(1);
}

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

class Endurance {
 public:
  explicit Endurance(const std::string& path)
      : model_(load_model(runtime_.get(), path)), cache_(make_small_cache(model_.get())) {
    quire_job_request_set_queue(request_.get(), queue_.get(), nullptr);
    jobs_.resize(kJobsAtOnce);
    for (size_t i = 0; i < jobs_.size(); ++i) submit(i);
  }

  // Returns the processor time of the next kWindow jobs that end.
  double run_window() {
    const double start = processor_seconds();
    for (int64_t ended = 0; ended < kWindow;) {
      const OwnedEvent event(next_event(queue_.get(), QUIRE_WAIT_FOREVER, nullptr));
      if (quire_event_type(event.get(), nullptr) == QUIRE_EVENT_ERROR) {
        stop(quire_event_error_message(event.get(), nullptr, nullptr));
      }
      if (quire_event_finish_reason(event.get(), nullptr) == QUIRE_FINISH_NONE) continue;
      submit(quire_event_user_data(event.get(), nullptr));
      ++ended;
    }
    return processor_seconds() - start;
  }

  int64_t pages_evicted() const {
    const OwnedStats stats(quire_cache_stats(cache_.get(), nullptr));
    return quire_stats_pages_evicted(stats.get(), nullptr);
  }

 private:
  static OwnedCache make_small_cache(quire_model* model) {
    const OwnedCacheOptions options(quire_cache_options_create(nullptr));
    quire_cache_options_set_page_tokens(options.get(), 4, nullptr);
    quire_cache_options_set_max_tokens(options.get(), 4096, nullptr);
    quire_cache_options_set_max_seq_len(options.get(), 64, nullptr);
    quire_cache_options_set_max_batch_size(options.get(), kJobsAtOnce, nullptr);
    quire_cache_options_set_max_chunk_tokens(options.get(), 256, nullptr);
    return OwnedCache(quire_cache_create(model, options.get(), nullptr));
  }

  // Submits a prompt with one of 64 prefixes and a random suffix.
  void submit(size_t place) {
    std::uniform_int_distribution<int32_t> beginning(0, 63), token(kFirstToken, kLastToken), length(2, 12);
    prompt_.assign(8, kFirstToken + beginning(random_));
    for (int32_t i = length(random_); i > 0; --i) prompt_.push_back(token(random_));
    quire_job_request_set_prompt_tokens(request_.get(), prompt_.data(), prompt_.size(), nullptr);
    quire_job_request_set_max_new_tokens(request_.get(), length(random_) / 2, nullptr);
    quire_job_request_set_user_data(request_.get(), place, nullptr);
    Report report;
    jobs_[place] = OwnedJob(quire_job_submit(cache_.get(), request_.get(), report.out()));
    if (!jobs_[place]) stop(report.message());
  }

  OwnedRuntime runtime_ = make_runtime();
  OwnedModel model_;
  OwnedCache cache_;
  OwnedQueue queue_{quire_queue_create(runtime_.get(), nullptr)};
  OwnedRequest request_ = make_request("", 4);
  std::vector<OwnedJob> jobs_;
  std::vector<int32_t> prompt_;
  std::mt19937 random_{17};
};

// Returns the upper bound of the fastest tenth: other load on the machine only adds time.
double typical(std::vector<double> values) {
  const auto tenth = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 10);
  std::nth_element(values.begin(), tenth, values.end());
  return *tenth;
}

int run(const std::string& path, int64_t num_jobs) {
  Endurance endurance(path);
  // The first jobs fill the cache.
  for (int i = 0; i < 5; ++i) endurance.run_window();
  std::vector<double> seconds;
  for (int64_t done = 0; done < num_jobs; done += kWindow) {
    seconds.push_back(endurance.run_window());
    if (seconds.size() % 100 == 0) {
      std::printf("%9lld jobs: %.1f us of processor time per job\n", static_cast<long long>(done + kWindow),
                  1e6 / kWindow * typical({seconds.end() - kCompared, seconds.end()}));
      std::fflush(stdout);
    }
  }
  const double first = typical({seconds.begin(), seconds.begin() + kCompared});
  const double last = typical({seconds.end() - kCompared, seconds.end()});
  std::printf("first %.1f us, last %.1f us per job: %+.1f %%; %lld pages evicted\n", 1e6 / kWindow * first,
              1e6 / kWindow * last, 100.0 * (last / first - 1.0),
              static_cast<long long>(endurance.pages_evicted()));
  return 0;
}

}  // namespace
}  // namespace quire::testing

int main(int argc, char** argv) {
  const int64_t num_jobs = argc > 2 ? std::atoll(argv[2]) : 1'000'000;
  if (num_jobs < 50'000) {
    std::fprintf(stderr, "endurance_bench: JOBS must be 50000 or more\n");
    return 2;
  }
  return quire::testing::run(argc > 1 ? argv[1] : quire::testing::tiny_model_path(), num_jobs);
}
