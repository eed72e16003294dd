#include "core/engine/loop/draft_times.h"

#include <algorithm>

#include "core/base/deadline.h"

namespace quire {

size_t index_of_first_time(int32_t num_tokens) {
  constexpr int32_t kSmall = 64;
  const int32_t index = num_tokens < kSmall ? num_tokens : kSmall + num_tokens / kSmall;
  return std::min(static_cast<size_t>(index), kNumFirstTimes - 1);
}

void observe_period(StepTimes& times, int32_t num_tokens, Duration period) noexcept {
  constexpr double kWeightOfLonger = 0.4;
  constexpr double kWeightOfShorter = 2.0;
  if (times.knows(num_tokens)) {
    const double known = in_seconds(times.of(num_tokens));
    const double change = in_seconds(period) - known;
    const double weighed = change > 0.0 ? known + kWeightOfLonger * std::min(change, known)
                                        : std::max(known + kWeightOfShorter * change, 0.1 * known);
    period = Duration(static_cast<Duration::rep>(weighed * 1e9));
  }
  times.observe(num_tokens, period);
}

void add_to_average(double& seconds, double measured) noexcept {
  constexpr double kWeightOfNew = 0.1;
  seconds += (seconds == 0.0 ? 1.0 : kWeightOfNew) * (measured - seconds);
}

}  // namespace quire
