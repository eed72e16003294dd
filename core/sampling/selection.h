// Weights of tokens as exact integers, and the cuts (top-k, nucleus sampling) made with them. Every cut keeps
// the beginning of one total order: larger logit first, lower id first among equals.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include <gsl/gsl>

#include "core/base/ids.h"

namespace quire {

// Share of a token before normalization, exp((logit - max_logit) / temperature), in units of 2^-40. Sums of
// integers are exact, so neither their order nor the algorithm can change a draw. A share below 2^-40 of that
// of the most likely token is 0, and the token cannot be drawn.
using Weight = uint64_t;
inline constexpr Weight kWeightOne = Weight{1} << 40;

struct Candidate {
  float logit;
  TokenId token;
  Weight weight;
};

// Position in the order after which tokens are cut; the token itself is kept.
struct Cutoff {
  float logit;
  TokenId token;

  bool keeps(float other_logit, TokenId other) const {
    return other_logit > logit || (other_logit == logit && other <= token);
  }
};

// Returns `value` as the new logit in place of `before`. Finite if `before` was, so that an extreme penalty
// or bias on an extreme logit cannot become NaN later; -infinity is kept.
float changed_logit(double value, float before);

struct RowScan {
  float max_logit;
  bool finite;  // no NaN, no +infinity
};
RowScan scan_row(gsl::span<const float> logits);

// Returns the lowest id whose logit is max_logit; there must be one.
TokenId arg_max(gsl::span<const float> logits, float max_logit);

// Returns exp((logit - max_logit) * inverse_temperature), computed with a fixed polynomial: the same on every
// machine. logit <= max_logit, which is finite; the share of -infinity is too small to have any weight.
float share_of(float logit, float max_logit, float inverse_temperature);
// Does the same for a whole row.
void compute_shares(gsl::span<const float> logits, float max_logit, float inverse_temperature,
                    gsl::span<float> shares);

inline Weight weight_of(float share) {
  return static_cast<Weight>(static_cast<int64_t>(share * 0x1p40F));
}
Weight sum_weights(gsl::span<const float> shares);

// Weight of a row summed over tokens with similar shares, in steps of at most 1.5.
class WeightProfile {
 public:
  explicit WeightProfile(gsl::span<const float> shares);

  Weight total() const { return total_; }
  // Returns a share such that the tokens at or above it weigh `target` or more together, and few of them are
  // unnecessary; 1 <= target <= total().
  float share_reaching(Weight target) const;

 private:
  std::array<Weight, 512> weights_{};  // by the exponent and first mantissa bit of the share
  Weight total_ = 0;
};

bool comes_before(const Candidate& a, const Candidate& b);

// Returns the cutoff at the k-th token in order; 1 <= k <= logits.size(). Linear time for small k. Writes the
// first k tokens to `front`, unordered and without weights.
Cutoff find_kth(gsl::span<const float> logits, size_t k, std::vector<Candidate>& front);

// Returns the cutoff at which the sum of weights in order first reaches `target`, or the last candidate if it
// never does. There must be at least one candidate. Linear time; `order` is overwritten.
Cutoff find_nucleus(const std::vector<Candidate>& candidates, Weight target, std::vector<Candidate>& order);

}  // namespace quire
