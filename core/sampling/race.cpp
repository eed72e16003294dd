#include "core/sampling/race.h"

#include <algorithm>
#include <limits>

#include "core/sampling/vector_level.h"
#include "kernels/interface/token_noise.h"

namespace quire {
namespace {

constexpr size_t kBlock = 128;  // tokens of a row that are ruled out together

// Returns the part of a token's noise that rules out most tokens: the high 24 bits, which are exact in a
// float.
inline float leading_noise(uint64_t position_bits, uint32_t token) {
  return static_cast<float>(static_cast<int32_t>(kernels::noise_prefix(position_bits, token) >> 8));
}

class Race {
 public:
  explicit Race(uint64_t position_bits) : bits_(position_bits) {}

  // Returns the largest leading noise for each unit of weight with which a token may still win.
  float bound() const { return bound_; }
  // Returns true if the token is the first to arrive so far.
  bool enter(TokenId token, Weight exact) {
    const auto id = static_cast<uint32_t>(token);
    const auto weight = static_cast<float>(exact);  // exact too: 24 significant bits
    if (exact == 0 || leading_noise(bits_, id) > weight * bound_) return false;
    const float time = kernels::arrival_time(bits_, id, weight);
    const uint64_t key = kernels::arrival_key(time, id);
    if (key > first_) return false;
    first_ = key;
    bound_ = kernels::arrival_bound(time);
    return true;
  }

 private:
  uint64_t bits_;
  uint64_t first_ = kernels::kNoArrival;
  float bound_ = std::numeric_limits<float>::infinity();
};

// Returns true if a token of the block that begins at `begin` may win. `share_bound` is the bound of the race
// for each unit of share.
[[gnu::always_inline]] inline bool may_win(const float* shares, size_t begin, uint64_t position_bits,
                                           float share_bound) {
  uint32_t any = 0;
  for (size_t i = 0; i < kBlock; ++i) {
    const float noise = leading_noise(position_bits, static_cast<uint32_t>(begin + i));
    any |= noise <= shares[begin + i] * share_bound ? 1U : 0U;
  }
  return any != 0;
}

bool may_win_anywhere(const float* shares, size_t begin, uint64_t position_bits, float share_bound) {
  return may_win(shares, begin, position_bits, share_bound);
}

QUIRE_FOR_AVX2 bool may_win_avx2(const float* shares, size_t begin, uint64_t position_bits,
                                 float share_bound) {
  return may_win(shares, begin, position_bits, share_bound);
}

}  // namespace

TokenId first_to_arrive(gsl::span<const float> shares, uint64_t position_bits) {
  const auto block_may_win = has_avx2() ? may_win_avx2 : may_win_anywhere;
  Race race(position_bits);
  TokenId first = -1;
  for (size_t begin = 0; begin < shares.size(); begin += kBlock) {
    const size_t end = std::min(shares.size(), begin + kBlock);
    const float share_bound = race.bound() * static_cast<float>(kWeightOne);
    if (end - begin == kBlock && !block_may_win(shares.data(), begin, position_bits, share_bound)) continue;
    for (size_t idx = begin; idx < end; ++idx) {
      const auto token = static_cast<TokenId>(idx);
      if (race.enter(token, weight_of(shares[idx]))) first = token;
    }
  }
  Ensures(first >= 0);
  return first;
}

const Candidate& first_to_arrive(gsl::span<const Candidate> candidates, uint64_t position_bits) {
  Race race(position_bits);
  const Candidate* first = nullptr;
  for (const Candidate& candidate : candidates) {
    if (race.enter(candidate.token, candidate.weight)) first = &candidate;
  }
  Ensures(first != nullptr);
  return *first;
}

}  // namespace quire
