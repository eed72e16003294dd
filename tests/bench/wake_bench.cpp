// A model that is evicted to pinned host memory and loaded back to its GPU: its speed compared with a plain
// copy over the same link, and the time to its first token. Through the C interface. Usage: wake_bench MODEL
// [DEVICE [ROUNDS]]. Prints a table, and the same as one line of JSON. Fails if a generated text differs.
//
// - leave: evict of a resident model, the first time including its copy to the host.
// - copy: a wake followed at once by an evict, which waits for the copies, minus the time of an evict.
// - first token: of a job that is submitted while the model is evicted, measured from the submit.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/bench/pinned_copy.h"
#include "tests/capi/capi_fixture.h"

namespace quire::testing {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int32_t kPromptTokens = 64;
constexpr int32_t kNewTokens = 16;
constexpr int64_t kCacheTokens = 4096;

[[noreturn]] void stop(const std::string& words) {
  std::fprintf(stderr, "wake_bench: %s\n", words.c_str());
  std::exit(1);
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Answer {
  double first_token = 0.0;  // seconds after the submit
  std::vector<int32_t> tokens;
};

class Bench {
 public:
  Bench(const std::string& path, const std::string& device) {
    Report report;
    const OwnedModelOptions options(quire_model_options_create(nullptr));
    quire_model_options_set_path(options.get(), path.data(), path.size(), nullptr);
    quire_model_options_set_device(options.get(), device.data(), device.size(), nullptr);
    model_ = OwnedModel(
        quire_model_load(runtime_.get(), options.get(), QUIRE_WAIT_FOREVER, nullptr, report.out()));
    if (!model_) stop(report.message());
    const OwnedCacheOptions sizes(quire_cache_options_create(nullptr));
    quire_cache_options_set_max_tokens(sizes.get(), kCacheTokens, nullptr);
    quire_cache_options_set_max_batch_size(sizes.get(), 4, nullptr);
    cache_ = OwnedCache(quire_cache_create(model_.get(), sizes.get(), report.out()));
    if (!cache_) stop(report.message());
  }

  // Runs the same prompt each time, in a new namespace, so that no prefix is found in the cache.
  Answer ask() {
    std::vector<int32_t> prompt;
    for (int32_t i = 0; i < kPromptTokens; ++i) prompt.push_back(100 + i * 7 % 400);
    const std::string name_space = "round " + std::to_string(++num_asked_);
    const OwnedRequest request = make_request("", kNewTokens);
    quire_job_request_set_prompt_tokens(request.get(), prompt.data(), prompt.size(), nullptr);
    quire_job_request_set_namespace(request.get(), name_space.data(), name_space.size(), nullptr);
    Report report;
    Answer answer;
    const auto start = Clock::now();
    const OwnedJob job(quire_job_submit(cache_.get(), request.get(), report.out()));
    if (!job) stop(report.message());
    Collected collected;
    while (collected.num_last_events == 0) {
      const OwnedEvent event(next_event(job.get(), QUIRE_WAIT_FOREVER, report.out()));
      if (!event) stop(report.message());
      add_event(collected, event.get());
      if (answer.first_token == 0.0 && !collected.tokens.empty()) answer.first_token = seconds_since(start);
    }
    if (collected.error_code != QUIRE_ERROR_OK) stop("a job failed");
    answer.tokens = collected.tokens;
    return answer;
  }

  double evict() {
    Report report;
    const auto start = Clock::now();
    if (quire_model_evict(model_.get(), QUIRE_MODEL_STATE_STANDING_BY, QUIRE_WAIT_FOREVER, nullptr,
                          report.out()) != 1)
      stop(report.message());
    return seconds_since(start);
  }
  double wake() {
    Report report;
    const auto start = Clock::now();
    if (quire_model_wake(model_.get(), QUIRE_WAIT_FOREVER, nullptr, report.out()) != 1)
      stop(report.message());
    return seconds_since(start);
  }

  // Returns the pinned memory according to the metrics page of the runtime.
  int64_t pinned_bytes() {
    std::string page(1 << 20, '\0');
    const int64_t size = quire_runtime_metrics(runtime_.get(), page.data(), page.size(), nullptr);
    page.resize(static_cast<size_t>(std::max<int64_t>(size, 0)));
    const size_t line = page.find("quire_memory_bytes{device=\"pinned\"");
    if (line == std::string::npos) return 0;
    return std::atoll(page.c_str() + page.find("} ", line) + 2);
  }

 private:
  OwnedRuntime runtime_ = make_runtime();
  OwnedModel model_;
  OwnedCache cache_;
  int num_asked_ = 0;
};

struct Times {
  double first_leave = 0.0, leave = 0.0, issue = 0.0, wake_and_leave = 0.0;
  double first_token = 0.0, first_token_resident = 0.0;
  int64_t bytes = 0;

  double copy() const { return wake_and_leave - leave; }
};

Times measure(Bench& bench, int num_rounds) {
  Times times;
  bench.ask();  // warms up kernels and recordings
  const Answer expected = bench.ask();
  times.first_token_resident = expected.first_token;
  times.first_leave = bench.evict();
  times.bytes = bench.pinned_bytes();
  std::vector<double> leaves, issues, both, tokens;
  for (int round = 0; round < num_rounds; ++round) {
    const Answer answer = bench.ask();
    if (answer.tokens != expected.tokens) stop("the generated text differs");
    tokens.push_back(answer.first_token);
    leaves.push_back(bench.evict());
    issues.push_back(bench.wake());
    both.push_back(issues.back() + bench.evict());
  }
  times.leave = median(leaves);
  times.issue = median(issues);
  times.wake_and_leave = median(both);
  times.first_token = median(tokens);
  return times;
}

void tell(const std::string& path, const std::string& device, const Times& times,
          std::optional<double> link) {
  const auto bytes = static_cast<double>(times.bytes);
  nlohmann::json json = {{"model", path},
                         {"device", device},
                         {"bytes", times.bytes},
                         {"first_leave_ms", 1e3 * times.first_leave},
                         {"leave_ms", 1e3 * times.leave},
                         {"wake_issued_ms", 1e3 * times.issue},
                         {"copy_ms", 1e3 * times.copy()},
                         {"first_token_ms", 1e3 * times.first_token},
                         {"first_token_resident_ms", 1e3 * times.first_token_resident}};
  std::printf("%s on %s\n", path.c_str(), device.c_str());
  std::printf("leave: %.1f ms at first, then %.1f ms\n", 1e3 * times.first_leave, 1e3 * times.leave);
  if (times.bytes == 0) {
    std::printf(
        "back from its source, not from pinned memory: %.1f ms, first token after %.1f ms (resident %.1f)\n",
        1e3 * times.issue, 1e3 * times.first_token, 1e3 * times.first_token_resident);
  } else {
    const double rate = bytes / times.copy();
    json["copy_bytes_per_second"] = rate;
    std::printf("back: %.3f GB, issued in %.1f ms, there in %.1f ms, %.1f GB/s\n", bytes / 1e9,
                1e3 * times.issue, 1e3 * times.copy(), rate / 1e9);
    std::printf("first token: %.1f ms after the submit, %.2f of the copy (resident %.1f ms)\n",
                1e3 * times.first_token, times.first_token / times.copy(), 1e3 * times.first_token_resident);
    json["first_token_per_copy"] = times.first_token / times.copy();
    if (link) {
      std::printf("link: %.1f GB/s by a plain copy; the wake at %.2f of it\n", *link / 1e9, rate / *link);
      json["link_bytes_per_second"] = *link;
      json["share_of_link"] = rate / *link;
    }
  }
  std::printf("%s\n", json.dump().c_str());
}

}  // namespace
}  // namespace quire::testing

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: wake_bench MODEL [DEVICE [ROUNDS]]\n");
    return 2;
  }
  const std::string device = argc > 2 ? argv[2] : "cuda:0";
  const int num_rounds = argc > 3 ? std::max(1, std::atoi(argv[3])) : 5;
  std::optional<double> link;
  if (device.compare(0, 5, "cuda:") == 0) link = quire::testing::measure_link(std::atoi(device.c_str() + 5));
  quire::testing::Bench bench(argv[1], device);
  quire::testing::tell(argv[1], device, quire::testing::measure(bench, num_rounds), link);
  return 0;
}
