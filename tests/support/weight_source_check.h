// Holds a weight source to every statement of kernels/interface/weight_source.h.
#pragma once

#include <string>

#include "kernels/interface/weight_source.h"

namespace quire::testing {

// The first statement that does not hold, or an empty string.
std::string find_defect(const kernels::WeightSource& source);

}  // namespace quire::testing
