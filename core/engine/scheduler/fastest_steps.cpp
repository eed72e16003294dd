#include "core/engine/scheduler/fastest_steps.h"

#include <algorithm>

namespace quire {

namespace {

void keep_shorter(Duration& shortest, Duration took) {
  shortest = shortest == Duration{0} ? took : std::min(shortest, took);
}

}  // namespace

void FastestSteps::observe(int32_t num_tokens, Duration took) noexcept {
  if (took <= Duration{0}) return;
  keep_shorter(any, took);
  if (num_tokens >= max_step_tokens) keep_shorter(full, took);
}

Duration least_time_to_first_token(const FastestSteps& steps, const LeastWork& work) {
  const int32_t num_full = work.prompt_tokens / steps.max_step_tokens;
  const bool has_rest = work.prompt_tokens % steps.max_step_tokens != 0;
  return num_full * std::max(steps.full, steps.any) + (has_rest ? steps.any : Duration{0});
}

// Computing the prompt yields the first token.
Duration least_time_to_end(const FastestSteps& steps, const LeastWork& work) {
  const int32_t num_left = std::max(0, work.new_tokens - 1);
  const int32_t num_steps = (num_left + work.step_tokens - 1) / work.step_tokens;
  return least_time_to_first_token(steps, work) + num_steps * steps.any;
}

}  // namespace quire
