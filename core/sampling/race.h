// The draw: an exponential race of tokens (kernels/interface/token_noise.h). A token of weight 0 never wins.
#pragma once

#include <cstdint>

#include <gsl/gsl>

#include "core/sampling/selection.h"

namespace quire {

// Returns the token drawn from a whole row of shares (selection.h), of which at least one has a weight.
TokenId first_to_arrive(gsl::span<const float> shares, uint64_t position_bits);

// Does the same for candidates in any order.
const Candidate& first_to_arrive(gsl::span<const Candidate> candidates, uint64_t position_bits);

}  // namespace quire
