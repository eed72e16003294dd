// Checks a weight source against all requirements of kernels/interface/weight_source.h.
#pragma once

#include <string>

#include "kernels/interface/weight_source.h"

namespace quire::testing {

// Returns the first violated requirement, or an empty string.
std::string find_defect(const kernels::WeightSource& source);

}  // namespace quire::testing
