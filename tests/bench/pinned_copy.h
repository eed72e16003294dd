// Speed of the link to a GPU: a plain copy from pinned memory, with the driver alone.
#pragma once

#include <cstdint>
#include <optional>

namespace quire::testing {

// Returns bytes per second, the best of several copies of a gibibyte; none if there is no such driver or GPU.
// Holds no GPU resources afterwards.
std::optional<double> measure_link(int32_t ordinal);

}  // namespace quire::testing
