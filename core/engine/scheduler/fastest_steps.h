// Shortest measured step times, and the lower bounds for the times of a job that follow from them.
#pragma once

#include "core/base/clock.h"

namespace quire {

// Shortest measured times of steps; 0: none measured. A step generates a limited number of tokens of a job.
// So these give a lower bound, not an estimate: a job rejected because of it would be late even on an idle
// machine.
struct FastestSteps {
  Duration any{0};
  Duration full{0};  // with max_step_tokens tokens
  int32_t max_step_tokens = 1;

  void observe(int32_t num_tokens, Duration took) noexcept;
};

// Minimum work of a job.
struct LeastWork {
  int32_t prompt_tokens = 0;  // 1 if the prompt may be in the prefix cache
  int32_t new_tokens = 0;     // 0 for a job that generates no tokens
  int32_t step_tokens = 1;    // maximum number of new tokens of a step: one, and draft tokens
};

Duration least_time_to_first_token(const FastestSteps& steps, const LeastWork& work);
Duration least_time_to_end(const FastestSteps& steps, const LeastWork& work);

}  // namespace quire
