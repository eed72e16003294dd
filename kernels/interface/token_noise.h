// Noise of the draw: an exponential race. Each token that may be drawn arrives at the time E / weight, where
// E has the exponential distribution and depends on the random bits of the position and the id of the token
// alone. The token that arrives first is drawn, so token i wins with probability weight_i / sum of weights.
//
// Everything up to E is integer arithmetic, and the time is one rounded division of floats, so the winner is
// the same on every machine. The rounding and the error of the logarithm change the probability of a token
// by less than 2^-22 of it.
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/interface/host_and_device.h"

namespace quire::kernels {

// Returns the high half of the random bits of a token: a hash whose two keys are the halves of
// `position_bits`, with the multipliers of triple32 (Wellons, "Prospecting for hash functions", 2018).
QUIRE_HOST_AND_DEVICE constexpr uint32_t noise_prefix(uint64_t position_bits, uint32_t token) {
  uint32_t x = token ^ static_cast<uint32_t>(position_bits);
  x = (x ^ x >> 17) * 0xed5ad4bbU;
  x += static_cast<uint32_t>(position_bits >> 32);
  x = (x ^ x >> 11) * 0xac4c1b51U;
  x = (x ^ x >> 15) * 0x31848babU;
  return x ^ x >> 14;
}

// Returns the low half for the high half: another hash of it with the same keys.
QUIRE_HOST_AND_DEVICE constexpr uint32_t noise_suffix(uint64_t position_bits, uint32_t prefix) {
  uint32_t x = prefix + static_cast<uint32_t>(position_bits >> 32);
  x = (x ^ x >> 16) * 0x7feb352dU;
  x ^= static_cast<uint32_t>(position_bits);
  x = (x ^ x >> 15) * 0x846ca68bU;
  return x ^ x >> 16;
}

// Returns a * factor / 2^32, rounded down.
QUIRE_HOST_AND_DEVICE constexpr uint64_t scaled_noise(uint64_t a, uint32_t factor) {
  return (a >> 32) * factor + ((a & 0xffffffffU) * factor >> 32);
}

QUIRE_HOST_AND_DEVICE inline int leading_zeros(uint64_t value) {
#if defined(__CUDA_ARCH__)
  return __clzll(static_cast<long long>(value));
#else
  return std::countl_zero(value);
#endif
}

// Returns -ln(1 - x) in units of 2^-58 for x = ((word >> 6) | 1) / 2^58, which is never 0 nor 1. The relative
// error is below 2^-28, or one unit. The result is at least x.
QUIRE_HOST_AND_DEVICE inline uint64_t exponential_of(uint64_t word) {
  constexpr uint64_t kOne = uint64_t{1} << 58;
  constexpr uint64_t kRootOfHalf = 0x2d413cccfe77992;  // 2^-0.5
  constexpr uint64_t kHalfLn2 = 0x162e42fefa39ef3;
  uint64_t left = kOne - (word >> 6 | 1);  // 1 - x
  const int doublings = leading_zeros(left) - 6;
  left <<= doublings;
  uint64_t sum = 2 * static_cast<uint64_t>(doublings) * kHalfLn2;
  if (left < kRootOfHalf) {
    left += scaled_noise(left, 0x6a09e667U);  // 2^0.5 - 1
    sum += kHalfLn2;
  }
  // -ln(1 - z) = z + z^2 * p(z) for z up to 0.293; p is the polynomial of least largest error there.
  const uint64_t z = kOne - left;
  const auto short_z = static_cast<uint32_t>(z >> 26);
  const uint32_t terms[6] = {0x08e72f51U, 0x30b24217U, 0x328d0fc8U, 0x400856ecU, 0x55552db3U, 0x8000001eU};
  uint64_t p = 0x592ea568U;
  for (const uint32_t term : terms) p = scaled_noise(p, short_z) + term;
  return sum + z + scaled_noise(scaled_noise(z, short_z), static_cast<uint32_t>(p));
}

// Returns the time at which a token arrives, for a weight from 1 to 2^40 that a float represents exactly.
QUIRE_HOST_AND_DEVICE inline float arrival_time(uint64_t position_bits, uint32_t token, float weight) {
  const uint32_t prefix = noise_prefix(position_bits, token);
  const uint64_t word = uint64_t{prefix} << 32 | noise_suffix(position_bits, prefix);
#if defined(__CUDA_ARCH__)
  return __fdiv_rn(__ull2float_rn(exponential_of(word)), weight);
#else
  return static_cast<float>(exponential_of(word)) / weight;
#endif
}

// Returns a key that is smaller for tokens that are drawn first: the earlier time, then the lower id.
QUIRE_HOST_AND_DEVICE inline uint64_t arrival_key(float time, uint32_t token) {
#if defined(__CUDA_ARCH__)
  return uint64_t{__float_as_uint(time)} << 32 | token;
#else
  return uint64_t{std::bit_cast<uint32_t>(time)} << 32 | token;
#endif
}

// Keys of no token and of a time that no token reaches.
constexpr uint64_t kNoArrival = ~uint64_t{0};

// Returns a factor f such that a token of a prefix p and a weight w cannot arrive by `time` if p >> 8, as a
// float, is larger than w * f. The factor has a margin for the rounding of its use.
QUIRE_HOST_AND_DEVICE constexpr float arrival_bound(float time) {
  return time * (0x1p-34f * 1.00001f);
}

}  // namespace quire::kernels
