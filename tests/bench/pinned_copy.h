// What the link to a card carries: a plain copy from pinned memory, by the driver alone.
#pragma once

#include <cstdint>
#include <optional>

namespace quire::testing {

// Bytes a second, the best of some copies of a gibibyte; none where there is no such driver or card. Holds
// nothing of the card afterwards.
std::optional<double> measure_link(int32_t ordinal);

}  // namespace quire::testing
