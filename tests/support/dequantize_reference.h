// Simple, slow dequantization of a stored matrix: the oracle of loaders and kernels.
#pragma once

#include <vector>

#include "kernels/interface/weight_source.h"

namespace quire::testing {

// Returns the weights as [num_in, num_out] in the order of the input features and, if the source has a column
// order, of the requested outputs. Products of code and scale are not rounded; scales are rounded as the
// format requires.
std::vector<float> dequantize_reference(const kernels::WeightSource& source);

// Returns the bias in the order of the outputs; zeros if the source has none.
std::vector<float> bias_reference(const kernels::WeightSource& source);

}  // namespace quire::testing
