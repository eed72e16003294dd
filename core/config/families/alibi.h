// Attention with linear biases (ALiBi): the score of a key falls with its distance, by a slope for each head.
#pragma once

#include "core/config/model_reader.h"

namespace quire::families {

// Replaces RoPE by ALiBi. The slopes are the geometric series of the paper from 2^(-max_bias / n) on, where n
// is the largest power of two that is at most the number of heads; further heads have the slopes between the
// first ones.
void use_alibi(ModelReader& reader, double max_bias = 8.0);

}  // namespace quire::families
