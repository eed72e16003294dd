#include "capi/cli/workload.h"

#include <algorithm>
#include <cmath>

#include "capi/cli/prompt_maker.h"

namespace quire::cli {
namespace {

constexpr int32_t kNumPrefixes = 4;
constexpr int32_t kPrefixTokens = 512;

// Returns a log-normal length, as in conversations: many are short, few are long.
int32_t log_normal_tokens(SplitMix& random, double median, int32_t least, int32_t most) {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - random.next_unit()));
  const double normal = radius * std::cos(2.0 * M_PI * random.next_unit());
  return static_cast<int32_t>(std::clamp(median * std::exp(0.8 * normal), double(least), double(most)));
}

WorkloadJob chat_job(SplitMix& random) {
  WorkloadJob job;
  job.prefix = static_cast<int32_t>(random.next() % kNumPrefixes);
  job.prefix_tokens = kPrefixTokens;
  job.prompt_tokens = log_normal_tokens(random, 150.0, 8, 1000);
  job.new_tokens = log_normal_tokens(random, 150.0, 8, 512);
  return job;
}

WorkloadJob fixed_job(const std::string& name) {
  WorkloadJob job;
  const size_t slash = name.find('/');
  job.prompt_tokens = std::stoi(name.substr(0, slash));
  job.new_tokens = std::stoi(name.substr(slash + 1));
  return job;
}

}  // namespace

const std::vector<std::string>& workload_names() {
  static const std::vector<std::string> names{"128/128", "1000/1000", "2048/128", "chat"};
  return names;
}

std::vector<WorkloadJob> make_workload(const std::string& name, int32_t num_jobs, double rate) {
  SplitMix random;
  std::vector<WorkloadJob> jobs;
  double now = 0;
  for (int32_t idx = 0; idx < num_jobs; ++idx) {
    jobs.push_back(name == "chat" ? chat_job(random) : fixed_job(name));
    jobs.back().arrival_seconds = now;
    const double gap = -std::log(
        1.0 - random.next_unit());  // drawn even if unused, so that the jobs are the same at each rate
    if (rate > 0) now += gap / rate;
  }
  return jobs;
}

double percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(values.size())));
  const auto place = values.begin() + static_cast<ptrdiff_t>(std::max<size_t>(rank, 1) - 1);
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

}  // namespace quire::cli
