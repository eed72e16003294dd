// Guidance by a second sequence, without a classifier: what a text is to be like, and what it is to lead away
// from.
#pragma once

#include <vector>

#include <gsl/gsl>

namespace quire {

// log(sum(exp(row))), in double: the sum of a vocabulary loses digits in float. max_logit is the largest.
double log_sum_exp(gsl::span<const float> row, float max_logit);

// Writes guide + scale * (lane - guide) of the logarithms of both softmaxes. What either row rules out
// (-infinity) is ruled out. A row that is not finite makes the result NaN.
void mix_guided(gsl::span<const float> lane, gsl::span<const float> guide, float scale,
                std::vector<float>& mixed);

}  // namespace quire
