// Random bits as a pure function of a seed and a position, so that draws can be undone, repeated or made out
// of order. Philox4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC
// 2011). Uses integer arithmetic only: the same on every platform and in every version.
#pragma once

#include <array>
#include <cstdint>

namespace quire {

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// Purpose of a random number. Numbers for different purposes are independent. The values determine the
// results of a seed, so they never change.
enum class RandomPurpose : uint32_t { draw = 0, accept = 1, exclude = 2 };

// Returns 64 uniform bits.
uint64_t random_bits(uint64_t seed, uint64_t position, RandomPurpose purpose = RandomPurpose::draw);

}  // namespace quire
