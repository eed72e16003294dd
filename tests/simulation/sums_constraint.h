// A constraint for the simulation: the allowed tokens depend on the sum and the number of tokens so far. It
// allows two thirds of the vocabulary, sometimes one token, and finally none.
#pragma once

#include <algorithm>
#include <array>
#include <memory>

#include "core/step/token_matcher.h"
#include "tests/simulation/world.h"

namespace quire::testing {

class SumsConstraint final : public TokenConstraint {
 public:
  explicit SumsConstraint(int32_t max_tokens) : max_tokens_(max_tokens) {}
  std::unique_ptr<TokenMatcher> start() const override { return std::make_unique<Place>(max_tokens_); }

 private:
  // Allocates nothing while it advances, because commit must not fail.
  class Place final : public TokenMatcher {
   public:
    explicit Place(int32_t max_tokens) : max_tokens_(max_tokens) {}
    void mask(gsl::span<uint32_t> words) override {
      std::fill(words.begin(), words.end(), 0U);
      for (TokenId token = 0; token < kWorldVocab; ++token) {
        if (allows(token))
          words[static_cast<size_t>(token) / 32] |= 1U << (static_cast<uint32_t>(token) % 32);
      }
    }
    bool accept(TokenId token) override {
      if (!allows(token)) return false;
      sums_[static_cast<size_t>(num_tokens_) + 1] = sum() + token;
      ++num_tokens_;
      return true;
    }
    void rollback(int32_t num_tokens) override { num_tokens_ -= num_tokens; }
    bool forces() const override { return true; }
    void force(int32_t max_tokens, TokenIds& out) const override {
      Place after = *this;
      while (max_tokens-- > 0 && after.sum() % 5 == 4 && after.num_tokens_ < max_tokens_ &&
             after.sum() % 3 != 0) {
        out.push_back(after.sum() % kFirstSpecial);
        after.accept(out.back());
      }
    }
    bool may_end() const override { return num_tokens_ == max_tokens_ || sum() % 3 == 0; }
    std::unique_ptr<TokenMatcher> clone() const override { return std::make_unique<Place>(*this); }

   private:
    int32_t sum() const { return sums_[static_cast<size_t>(num_tokens_)]; }
    bool allows(TokenId token) const {
      if (num_tokens_ == max_tokens_) return false;
      return sum() % 5 == 4 ? token == sum() % kFirstSpecial : (sum() + token) % 3 != 0;
    }

    int32_t max_tokens_;
    int32_t num_tokens_ = 0;
    std::array<int32_t, kMaxSeqLen + 1> sums_{};
  };

  int32_t max_tokens_;
};

}  // namespace quire::testing
