// How fast the steps of a cache have been at their best, and what follows for a deadline: less than that no
// job takes.
#pragma once

#include "core/base/clock.h"

namespace quire {

// A step gives a job one token. The shortest ever measured; 0 where there was none. A bound from below, not
// an estimate: a job that is refused for it could not have been in time on an idle machine.
struct FastestSteps {
  Duration any{0};
  Duration full{0};  // of max_step_tokens tokens
  int32_t max_step_tokens = 1;

  void observe(int32_t num_tokens, Duration took) noexcept;
};

// What a job has to compute at the least.
struct LeastWork {
  int32_t prompt_tokens = 0;  // one where a prefix may be found
  int32_t new_tokens = 0;     // 0 for a job that generates nothing
};

Duration least_time_to_first_token(const FastestSteps& steps, const LeastWork& work);
Duration least_time_to_end(const FastestSteps& steps, const LeastWork& work);

}  // namespace quire
