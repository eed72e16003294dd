// Weights of tokens as exact numbers, and the cuts made by them. Every cut keeps the front of one total
// order: larger logit first, lower id first among equals.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include <gsl/gsl>

#include "core/base/ids.h"

namespace quire {

// A token's share before normalisation, exp((logit - max_logit) / temperature) in units of 2^-40. Sums of
// integers are exact, so neither their order nor the algorithm can change a draw. Below 2^-40 of the most
// likely token's share it is 0 and the token cannot be drawn.
using Weight = uint64_t;
inline constexpr Weight kWeightOne = Weight{1} << 40;

struct Candidate {
  float logit;
  TokenId token;
  Weight weight;
};

// The place in the order after which tokens are cut; the token itself stays.
struct Cutoff {
  float logit;
  TokenId token;

  bool keeps(float other_logit, TokenId other) const {
    return other_logit > logit || (other_logit == logit && other <= token);
  }
};

// `value` as the logit that was `before`: finite where that was, so that an extreme penalty or bias on an
// extreme logit cannot become NaN later; -infinity stays.
float changed_logit(double value, float before);

struct RowScan {
  float max_logit;
  bool finite;  // no NaN, no +infinity
};
RowScan scan_row(gsl::span<const float> logits);

// The lowest id whose logit is max_logit; there is one.
TokenId arg_max(gsl::span<const float> logits, float max_logit);

// exp((logit - max_logit) * inverse_temperature), a polynomial of fixed shape: the same on every machine.
// logit <= max_logit, which is finite; -infinity has a share too small to weigh anything.
float share_of(float logit, float max_logit, float inverse_temperature);
// The same for a whole row.
void compute_shares(gsl::span<const float> logits, float max_logit, float inverse_temperature,
                    gsl::span<float> shares);

inline Weight weight_of(float share) {
  return static_cast<Weight>(static_cast<int64_t>(share * 0x1p40F));
}
Weight sum_weights(gsl::span<const float> shares);

// How the weight of a row is spread over tokens of like shares, in steps of at most 1.5.
class WeightProfile {
 public:
  explicit WeightProfile(gsl::span<const float> shares);

  Weight total() const { return total_; }
  // A share such that the tokens at or above it weigh `target` or more together, and few of them are
  // needless; 1 <= target <= total().
  float share_reaching(Weight target) const;

 private:
  std::array<Weight, 512> weights_{};  // by the exponent and first mantissa bit of the share
  Weight total_ = 0;
};

bool comes_before(const Candidate& a, const Candidate& b);

// The k-th in order; 1 <= k <= logits.size(). Linear time for small k. Leaves the first k, in no order and
// without weights, in `front`.
Cutoff find_kth(gsl::span<const float> logits, size_t k, std::vector<Candidate>& front);

// Where the front of the order first weighs `target` or more, or the last candidate where they weigh less;
// there is at least one. Linear time; `order` is overwritten.
Cutoff find_nucleus(const std::vector<Candidate>& candidates, Weight target, std::vector<Candidate>& order);

}  // namespace quire
