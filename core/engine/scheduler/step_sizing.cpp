#include "core/engine/scheduler/step_sizing.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace quire {
namespace {

constexpr double kWeightOfNew = 0.25;
// Number of steps after which a size that did not occur again is forgotten.
constexpr uint64_t kMemory = 128;

// Shorter times are not worth limiting: the noise of the measurement is as large.
constexpr Duration kShortestStep = std::chrono::milliseconds(5);
constexpr Duration kShortestPiece = std::chrono::milliseconds(4);
// Limit for a step without breaks, which is one piece: a very short one computes hardly any prompt.
constexpr Duration kShortestWhole = std::chrono::milliseconds(12);
constexpr double kNoise = 1.05;  // rates that differ by less count as equal
constexpr Duration kLongestStep = std::chrono::seconds(1);
constexpr Duration kLongestCatchUp = std::chrono::milliseconds(100);
// Catching up ends once at most one prompt waits per this many generating jobs. Otherwise one long prompt of
// a burst would slow down all the others until its end.
constexpr int32_t kStreamsOfAPrompt = 8;
// Minimum number of prompt tokens in a step.
constexpr int32_t kFewestPromptTokens = 8;

Duration to_duration(double seconds) {
  return Duration(static_cast<Duration::rep>(std::min(seconds, 1e9) * 1e9));
}

double to_seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

// Returns the class of a number of tokens: 1, 2, 3, 4, 5-6, 7-8, 9-12, 13-16, ...
size_t size_index(int32_t num_tokens) {
  const auto before = static_cast<uint32_t>(std::max(num_tokens, 1)) - 1;
  if (before < 2) return before;
  const auto power = static_cast<uint32_t>(std::bit_width(before)) - 1;
  return 2 * power + ((before >> (power - 1)) & 1U);
}

// Returns the largest number of tokens in a class.
int32_t last_of_size(size_t index) {
  constexpr size_t kLargestPower = 28;
  if (index < 2) return static_cast<int32_t>(index) + 1;
  return static_cast<int32_t>((index % 2 == 0 ? 3U : 4U) << std::min(index / 2 - 1, kLargestPower));
}

}  // namespace

bool StepTimes::is_known(const Size& size) const noexcept {
  return size.tokens > 0.0 && num_steps_ - size.seen <= kMemory;
}

void StepTimes::observe(int32_t num_tokens, Duration took) noexcept {
  if (num_tokens < 1 || took <= Duration{0}) return;
  Size& size = sizes_[std::min<size_t>(size_index(num_tokens), kNumSizes - 1)];
  const double weight = is_known(size) ? kWeightOfNew : 1.0;
  size.tokens += weight * (num_tokens - size.tokens);
  size.seconds += weight * (to_seconds(took) - size.seconds);
  size.seen = ++num_steps_;
}

Duration StepTimes::of(int32_t num_tokens) const noexcept {
  const Size* below = nullptr;
  for (const Size& size : sizes_) {
    if (!is_known(size)) continue;
    if (size.tokens >= num_tokens) {
      if (below == nullptr) return to_duration(size.seconds * num_tokens / size.tokens);
      const double share = (num_tokens - below->tokens) / (size.tokens - below->tokens);
      return to_duration(below->seconds + share * std::max(0.0, size.seconds - below->seconds));
    }
    below = &size;
  }
  return below == nullptr ? Duration{0} : to_duration(below->seconds * num_tokens / below->tokens);
}

Duration StepTimes::beyond(int32_t base_tokens, Duration base, int32_t num_tokens) const noexcept {
  double tokens = base_tokens;
  double seconds = to_seconds(base);
  double slope = 0.0;
  for (const Size& size : sizes_) {
    if (!is_known(size) || size.tokens <= tokens) continue;
    slope = std::max(0.0, (size.seconds - seconds) / (size.tokens - tokens));
    if (size.tokens >= num_tokens) break;
    tokens = size.tokens;
    seconds = std::max(seconds, size.seconds);
  }
  return to_duration(seconds + slope * (num_tokens - tokens));
}

bool StepTimes::knows(int32_t num_tokens) const noexcept {
  return is_known(sizes_[std::min<size_t>(size_index(num_tokens), kNumSizes - 1)]);
}

bool StepTimes::knows_any() const noexcept {
  return std::any_of(sizes_.begin(), sizes_.end(), [this](const Size& size) { return is_known(size); });
}

int32_t StepTimes::largest_known() const noexcept {
  double largest = 0.0;
  for (const Size& size : sizes_) {
    if (is_known(size)) largest = size.tokens;
  }
  return static_cast<int32_t>(largest);
}

int32_t StepTimes::tokens_within(Duration longest, int32_t limit) const noexcept {
  const double seconds = to_seconds(longest);
  const Size* below = nullptr;
  double tokens = limit;
  for (const Size& size : sizes_) {
    if (!is_known(size)) continue;
    if (size.seconds > seconds) {
      const double start = below == nullptr ? 0.0 : below->tokens;
      const double spent = below == nullptr ? 0.0 : below->seconds;
      const double rise = (size.seconds - spent) / (size.tokens - start);
      return static_cast<int32_t>(std::min(start + (seconds - spent) / rise, double(limit)));
    }
    below = &size;
    tokens = size.tokens * seconds / size.seconds;
  }
  return static_cast<int32_t>(std::min(tokens, double(limit)));
}

int32_t StepTimes::quickest_within(Duration longest, int32_t limit, int32_t num_streams) const noexcept {
  int32_t quickest = tokens_within(longest, limit);
  const auto rate = [&](int32_t tokens) {
    const double seconds = to_seconds(of(tokens));
    return seconds > 0.0 ? (tokens - num_streams) / seconds : 0.0;
  };
  double best = rate(quickest);
  for (size_t index = size_index(quickest); index > size_index(num_streams); --index) {
    const int32_t smaller = last_of_size(index - 1);
    const double other = rate(smaller);
    if (other <= kNoise * best) continue;
    quickest = smaller;
    best = other;
  }
  return quickest;
}

void StepSizing::observe(int32_t num_tokens, int32_t num_streams, Duration took) noexcept {
  all_.observe(num_tokens, took);
  if (num_tokens == num_streams) generating_only_.observe(num_tokens, took);
}

int32_t StepSizing::tokens(const StepDemand& demand) noexcept {
  if (options_.stretch <= 0.0) return options_.max_tokens;
  catches_up_ = (catches_up_ ? int64_t{kStreamsOfAPrompt} : 1) * demand.num_prompts > demand.num_streams;
  Duration longest = kLongestStep;
  if (demand.num_streams > 0) {
    const Duration alone = generating_only_.of(demand.num_streams);
    const Duration rhythm = alone > Duration{0} ? alone : all_.of(demand.num_streams);
    longest = std::max(catches_up_ ? kLongestCatchUp : kShortestStep,
                       to_duration(options_.stretch * to_seconds(rhythm)));
  }
  if (demand.has_neighbours && demand.neighbours_turn > Duration{0}) {
    const double given_up = std::max(options_.stretch - 1.0, 0.0);
    const Duration piece = std::max(demand.num_breaks > 0 ? kShortestPiece : kShortestWhole,
                                    to_duration(given_up * to_seconds(demand.neighbours_turn)));
    longest = std::min(longest, piece * std::max(demand.num_breaks, 1));
  }
  const int32_t fewest = std::min(demand.num_streams + kFewestPromptTokens, options_.max_tokens);
  return std::max(all_.quickest_within(longest, options_.max_tokens, demand.num_streams), fewest);
}

int32_t StepSizing::breaks_of_a_piece(int32_t num_tokens, int32_t num_breaks) const noexcept {
  const Duration took = all_.of(num_tokens);
  if (took <= Duration{0}) return 1;
  const double breaks = num_breaks * to_seconds(kShortestPiece) / to_seconds(took);
  return static_cast<int32_t>(std::clamp(breaks, 1.0, double(std::max(num_breaks, 1))));
}

}  // namespace quire
