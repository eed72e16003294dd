// What a stored matrix means, computed the slow and plain way: the oracle of loaders and kernels.
#pragma once

#include <vector>

#include "kernels/interface/weight_source.h"

namespace quire::testing {

// W as [num_in, num_out] in the order of the input features and, where the source has a column order, of the
// outputs it asks for. Products of code and scale are not rounded; the scales are, as the format says.
std::vector<float> dequantize_reference(const kernels::WeightSource& source);

// The bias in the order of the outputs; zeros where the source has none.
std::vector<float> bias_reference(const kernels::WeightSource& source);

}  // namespace quire::testing
