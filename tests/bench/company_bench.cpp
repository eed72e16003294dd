// Time of a step for different kinds of jobs, through the C interface: equal greedy jobs; jobs whose prompts
// and outputs differ in length, half of them with penalties; and jobs with a schema each. A finished job is
// replaced, so the number of jobs is constant.
//
//   Usage: company_bench MODEL [DEVICE [JOBS [SECONDS [SCHEMA_FILE ...]]]]
//
// The time of a step is the median of the gaps between a job's tokens. The kinds are measured in turns, three
// times. Files of schemas are used in turn and need a model with a tokenizer.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

#include "tests/capi/capi_fixture.h"
#include "tests/support/file_text.h"

namespace quire::testing {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int32_t kFirstToken = 100;
constexpr int32_t kNumTokens = 1000;  // ordinary tokens that small vocabularies have, too
constexpr int32_t kShortest = 64;
constexpr int32_t kLongest = 320;
constexpr int32_t kEqual = (kShortest + kLongest) / 2;

[[noreturn]] void stop(const std::string& words) {
  std::fprintf(stderr, "company_bench: %s\n", words.c_str());
  std::exit(1);
}

struct Choice {
  std::string model;
  std::string device = "cpu";
  int32_t num_jobs = 32;
  double seconds = 5.0;
  std::vector<std::string> schema_files;
};

struct Kind {
  const char* name = nullptr;
  int32_t page_tokens = 16;
  bool equal = true;
  bool constrained = false;
};

// Random numbers that are the same in every run.
class Numbers {
 public:
  int32_t between(int32_t low, int32_t high) {
    state_ = state_ * 1664525U + 1013904223U;
    return low + static_cast<int32_t>((state_ >> 8) % static_cast<uint32_t>(high - low + 1));
  }

 private:
  uint32_t state_ = 1;
};

struct Steps {
  std::vector<double> gaps;  // seconds between tokens of one job
  int64_t num_tokens = 0;
  int64_t num_steps = 0;
};

// The jobs of one measurement.
class JobSet {
 public:
  JobSet(quire_runtime* runtime, quire_cache* cache, const Kind& kind, int32_t num_jobs,
         const std::vector<OwnedConstraint>& constraints)
      : cache_(cache), queue_(quire_queue_create(runtime, nullptr)), kind_(kind), constraints_(constraints) {
    jobs_.resize(static_cast<size_t>(num_jobs));
    last_.resize(jobs_.size());
    for (size_t place = 0; place < jobs_.size(); ++place) submit(place);
  }

  // Waits until prompts are computed, then measures for `seconds`.
  Steps measure(double seconds) {
    take_for(1.0, nullptr);
    Steps steps;
    const int64_t before = num_steps();
    take_for(seconds, &steps);
    steps.num_steps = num_steps() - before;
    return steps;
  }

  void end() {
    for (const OwnedJob& job : jobs_) quire_job_cancel(job.get(), nullptr);
    for (size_t alive = jobs_.size(); alive > 0;) {
      const OwnedEvent event(next_event(queue_.get(), QUIRE_WAIT_FOREVER, nullptr));
      if (quire_event_finish_reason(event.get(), nullptr) != QUIRE_FINISH_NONE) --alive;
    }
  }

 private:
  void submit(size_t place) {
    const int32_t num_prompt = kind_.equal ? kEqual : numbers_.between(kShortest, kLongest);
    const int32_t num_new = kind_.equal ? 4 * kLongest : numbers_.between(2 * kLongest, 6 * kLongest);
    std::vector<int32_t> prompt;
    for (int32_t i = 0; i < num_prompt; ++i)
      prompt.push_back(numbers_.between(kFirstToken, kFirstToken + kNumTokens - 1));
    const OwnedRequest request = make_request("", num_new);
    quire_job_request_set_prompt_tokens(request.get(), prompt.data(), prompt.size(), nullptr);
    quire_job_request_set_queue(request.get(), queue_.get(), nullptr);
    quire_job_request_set_user_data(request.get(), place, nullptr);
    if (!kind_.equal && place % 2 == 0) {
      quire_job_request_set_repetition_penalty(request.get(), 1.1, nullptr);
      quire_job_request_set_frequency_penalty(request.get(), 0.2, nullptr);
    }
    if (kind_.constrained)
      quire_job_request_set_constraint(request.get(), constraints_[place % constraints_.size()].get(),
                                       nullptr);
    Report report;
    jobs_[place] = OwnedJob(quire_job_submit(cache_, request.get(), report.out()));
    if (!jobs_[place]) stop(report.message());
    last_[place] = {};
  }

  void take_for(double seconds, Steps* steps) {
    const auto until =
        Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    while (Clock::now() < until) {
      const OwnedEvent event(next_event(queue_.get(), QUIRE_WAIT_FOREVER, nullptr));
      const auto place = static_cast<size_t>(quire_event_user_data(event.get(), nullptr));
      take(event.get(), place, steps);
      if (quire_event_finish_reason(event.get(), nullptr) != QUIRE_FINISH_NONE) submit(place);
    }
  }

  void take(quire_event* event, size_t place, Steps* steps) {
    const int64_t tokens = quire_event_tokens(event, nullptr, 0, nullptr);
    if (tokens <= 0) return;
    const auto now = Clock::now();
    if (steps != nullptr) {
      steps->num_tokens += tokens;
      if (last_[place] != Clock::time_point{})
        steps->gaps.push_back(std::chrono::duration<double>(now - last_[place]).count());
    }
    last_[place] = now;
  }

  int64_t num_steps() const {
    const OwnedStats stats(quire_cache_stats(cache_, nullptr));
    return quire_stats_steps(stats.get(), nullptr);
  }

  quire_cache* cache_;
  OwnedQueue queue_;
  const Kind kind_;
  const std::vector<OwnedConstraint>& constraints_;
  Numbers numbers_;
  std::vector<OwnedJob> jobs_;
  std::vector<Clock::time_point> last_;
};

OwnedModel open_model(quire_runtime* runtime, const Choice& choice) {
  const OwnedModelOptions options(quire_model_options_create(nullptr));
  quire_model_options_set_path(options.get(), choice.model.data(), choice.model.size(), nullptr);
  quire_model_options_set_device(options.get(), choice.device.data(), choice.device.size(), nullptr);
  Report report;
  OwnedModel model(quire_model_load(runtime, options.get(), QUIRE_WAIT_FOREVER, nullptr, report.out()));
  if (!model) stop(report.message());
  return model;
}

OwnedCache open_cache(quire_model* model, int32_t page_tokens, int32_t num_jobs) {
  const OwnedCacheOptions options(quire_cache_options_create(nullptr));
  quire_cache_options_set_page_tokens(options.get(), page_tokens, nullptr);
  quire_cache_options_set_max_tokens(options.get(), int64_t{8} * kLongest * num_jobs, nullptr);
  quire_cache_options_set_max_batch_size(options.get(), num_jobs, nullptr);
  Report report;
  OwnedCache cache(quire_cache_create(model, options.get(), report.out()));
  if (!cache) stop(report.message());
  return cache;
}

// Compiles the schemas that the library supports, at most one per job.
std::vector<OwnedConstraint> compile(quire_model* model, const Choice& choice) {
  std::vector<OwnedConstraint> compiled;
  for (const std::string& name : choice.schema_files) {
    if (compiled.size() == static_cast<size_t>(choice.num_jobs)) break;
    const std::string text = R"({"type": "array", "minItems": 1000, "items": )" + file_text(name) + "}";
    OwnedConstraint constraint(
        quire_constraint_create(model, QUIRE_CONSTRAINT_JSON_SCHEMA, text.data(), text.size(), nullptr));
    if (constraint) compiled.push_back(std::move(constraint));
  }
  if (!choice.schema_files.empty() && compiled.empty()) stop("none of the schemas is supported");
  return compiled;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0.0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void run(const Choice& choice) {
  const OwnedRuntime runtime = make_runtime();
  const OwnedModel model = open_model(runtime.get(), choice);
  const std::vector<OwnedConstraint> constraints = compile(model.get(), choice);
  std::vector<Kind> kinds{
      {"equal, greedy"}, {"unequal, penalties on half", 16, false}, {"equal, pages of 256", 256}};
  if (!constraints.empty()) kinds.push_back({"equal, a schema each", 16, true, true});
  std::printf("%d jobs, %zu schemas\n%-28s %10s %10s %12s %10s\n", choice.num_jobs, constraints.size(),
              "jobs", "ms a step", "tokens/s", "tokens/step", "to equal");
  for (int round = 0; round < 3; ++round) {
    double equal = 0.0;
    for (const Kind& kind : kinds) {
      const OwnedCache cache = open_cache(model.get(), kind.page_tokens, choice.num_jobs);
      JobSet company(runtime.get(), cache.get(), kind, choice.num_jobs, constraints);
      const Steps steps = company.measure(choice.seconds);
      company.end();
      const double step = median(steps.gaps);
      if (equal == 0.0) equal = step;
      std::printf(
          "%-28s %10.3f %10.0f %12.2f %10.3f\n", kind.name, 1e3 * step,
          static_cast<double>(steps.num_tokens) / choice.seconds,
          static_cast<double>(steps.num_tokens) / static_cast<double>(std::max<int64_t>(1, steps.num_steps)),
          step / equal);
      std::fflush(stdout);
    }
  }
}

}  // namespace
}  // namespace quire::testing

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: company_bench MODEL [DEVICE [JOBS [SECONDS [SCHEMA_FILE ...]]]]\n");
    return 2;
  }
  quire::testing::Choice choice;
  choice.model = argv[1];
  if (argc > 2) choice.device = argv[2];
  if (argc > 3) choice.num_jobs = std::atoi(argv[3]);
  if (argc > 4) choice.seconds = std::atof(argv[4]);
  for (int i = 5; i < argc; ++i) choice.schema_files.emplace_back(argv[i]);
  try {
    quire::testing::run(choice);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "company_bench: %s\n", error.what());
    return 1;
  }
  return 0;
}
