// Grids of the IQ block types: an index selects the magnitudes of some consecutive weights. The first weight
// has the lowest bits.
#pragma once

#include <cstdint>

namespace quire::kernels {

// Eight indices of two bits into the magnitudes 8, 25, 43.
extern const uint16_t kIq2XxsGrid[256];
extern const uint16_t kIq2XsGrid[512];
extern const uint16_t kIq2SGrid[1024];
// Four indices of three bits into the magnitudes 4, 12, 20, 28, 36, 44, 52, 62.
extern const uint16_t kIq3XxsGrid[256];
// Four indices of three bits into the magnitudes 1, 3, 5 to 15.
extern const uint16_t kIq3SGrid[512];
// Eight indices of two bits into the values -1, 0, 1.
extern const uint16_t kIq1Grid[2048];

}  // namespace quire::kernels
