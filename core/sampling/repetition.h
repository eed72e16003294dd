// Detection of endless repetition in generated text.
#pragma once

#include <cstdint>

#include <gsl/gsl>

#include "core/base/ids.h"

namespace quire {

// Guard against endless repetition. Both 0: off.
struct RepetitionGuard {
  int32_t max_period = 0;   // longest loop to detect, in tokens, 1 to 1024
  int32_t min_repeats = 0;  // consecutive repetitions that count as a loop, 2 to 1024

  bool is_on() const { return max_period > 0; }
  // Throws ErrorCode::invalid_argument naming the field.
  void validate() const;
};

// Returns the period of the shortest loop that the newest min_repeats * period tokens repeat, or 0 if there
// is none. Time: max_period comparisons, and more only if tokens repeat; at most max_period * min_repeats
// tokens are compared for each period.
int32_t find_loop(gsl::span<const TokenId> tokens, const RepetitionGuard& guard);

}  // namespace quire
