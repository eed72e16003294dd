// Measured times by which drafts are chosen.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/engine/scheduler/step_sizing.h"

namespace quire {

constexpr size_t kNumFirstTimes = 4096;

// Returns the index of a number of tokens, below kNumFirstTimes, in a list of first times: devices may record
// each small step apart.
size_t index_of_first_time(int32_t num_tokens);

// Adds a measured step. A step that the system or another process interrupts takes too long, and none takes
// too short, so a longer time counts less than a shorter one.
void observe_period(StepTimes& times, int32_t num_tokens, Duration period) noexcept;

// Adds a measured time to a moving average.
void add_to_average(double& seconds, double measured) noexcept;

}  // namespace quire
