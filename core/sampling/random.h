// Random bits as a pure function of a seed and a position, so that a draw can be taken back, repeated or made
// out of order. Philox4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3"
// (SC 2011). Integer arithmetic only: the same on every platform, for ever.
#pragma once

#include <array>
#include <cstdint>

namespace quire {

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// What a random number is for. Numbers of different purposes are independent. Values are part of the result
// of a seed and never change.
enum class RandomPurpose : uint32_t { draw = 0, accept = 1, exclude = 2 };

// 64 uniform bits.
uint64_t random_bits(uint64_t seed, uint64_t position, RandomPurpose purpose = RandomPurpose::draw);

}  // namespace quire
