// Whether a text has run into a loop that it will hardly leave.
#pragma once

#include <cstdint>

#include <gsl/gsl>

#include "core/base/ids.h"

namespace quire {

// A guard against endless repetition. Both 0: off.
struct RepetitionGuard {
  int32_t max_period = 0;   // tokens of the longest loop that is looked for, 1 to 1024
  int32_t min_repeats = 0;  // how often in a row a loop must have run, 2 to 1024

  bool is_on() const { return max_period > 0; }
  // Throws ErrorCode::invalid_argument naming the field.
  void validate() const;
};

// The period of the shortest loop in which the newest min_repeats * period tokens run, 0 where there is none.
// Time: max_period comparisons, and more only along what repeats; max_period * min_repeats tokens at most are
// looked at for each period.
int32_t find_loop(gsl::span<const TokenId> tokens, const RepetitionGuard& guard);

}  // namespace quire
