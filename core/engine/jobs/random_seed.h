// Seeds of jobs that leave their seed to chance.
#pragma once

#include <cstdint>

namespace quire {

// Returns a seed that differs with each call and needs no state of the process. Falls back to the clock if
// the system has no random source.
uint64_t draw_seed();

}  // namespace quire
