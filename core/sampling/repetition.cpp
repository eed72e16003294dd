#include "core/sampling/repetition.h"

#include "core/base/error.h"

namespace quire {
namespace {

constexpr int32_t kMaxPeriod = 1024;
constexpr int32_t kMaxRepeats = 1024;

bool runs_in_loop(gsl::span<const TokenId> tokens, size_t period, size_t num_repeats) {
  const size_t compared = period * (num_repeats - 1);
  if (compared + period > tokens.size()) return false;
  for (size_t age = 0; age < compared; ++age) {
    const size_t place = tokens.size() - 1 - age;
    if (tokens[place] != tokens[place - period]) return false;
  }
  return true;
}

}  // namespace

void RepetitionGuard::validate() const {
  if (max_period == 0 && min_repeats == 0) return;
  if (max_period < 1 || max_period > kMaxPeriod) {
    throw Error(ErrorCode::invalid_argument, "loop_guard: max_period must be from 1 to {}, not {}",
                kMaxPeriod, max_period)
        .at("loop_guard");
  }
  if (min_repeats < 2 || min_repeats > kMaxRepeats) {
    throw Error(ErrorCode::invalid_argument, "loop_guard: min_repeats must be from 2 to {}, not {}",
                kMaxRepeats, min_repeats)
        .at("loop_guard");
  }
}

int32_t find_loop(gsl::span<const TokenId> tokens, const RepetitionGuard& guard) {
  for (int32_t period = 1; period <= guard.max_period; ++period) {
    if (runs_in_loop(tokens, static_cast<size_t>(period), static_cast<size_t>(guard.min_repeats)))
      return period;
  }
  return 0;
}

}  // namespace quire
