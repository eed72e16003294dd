// The noise of tokens in long double, by its definition in kernels/interface/token_noise.h.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/base/ids.h"
#include "kernels/interface/token_noise.h"

namespace quire::testing {

// Returns E of the word: -ln(1 - x).
inline long double slow_exponential(uint64_t word) {
  return -std::log1p(-static_cast<long double>(word >> 6 | 1) * 0x1p-58L);
}

inline uint64_t noise_word(uint64_t position_bits, TokenId token) {
  const uint32_t prefix = kernels::noise_prefix(position_bits, static_cast<uint32_t>(token));
  return uint64_t{prefix} << 32 | kernels::noise_suffix(position_bits, prefix);
}

// Returns the tokens that arrive first: one, or more if their times are too close for single precision.
inline TokenIds first_arrivals(const std::vector<std::pair<TokenId, long double>>& weighted,
                               uint64_t position_bits) {
  constexpr long double kClose = 1e-5L;
  std::vector<long double> times;
  for (const auto& [token, weight] : weighted)
    times.push_back(slow_exponential(noise_word(position_bits, token)) / weight);
  const long double earliest = *std::min_element(times.begin(), times.end());
  TokenIds first;
  for (size_t i = 0; i < times.size(); ++i) {
    if (times[i] <= earliest * (1 + kClose)) first.push_back(weighted[i].first);
  }
  return first;
}

}  // namespace quire::testing
