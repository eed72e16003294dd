// Classifier-free guidance: mixes the logits of a prompt with those of a negative prompt.
#pragma once

#include <vector>

#include <gsl/gsl>

namespace quire {

// Returns log(sum(exp(row))), computed in double, because a float sum over a vocabulary loses digits.
// max_logit is the largest.
double log_sum_exp(gsl::span<const float> row, float max_logit);

// Writes guide + scale * (lane - guide), computed on the log-softmax of both rows. A token that is -infinity
// in either row is -infinity in the result. A row that is not finite makes the result NaN.
void mix_guided(gsl::span<const float> lane, gsl::span<const float> guide, float scale,
                std::vector<float>& mixed);

}  // namespace quire
