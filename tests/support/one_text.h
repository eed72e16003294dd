// A constraint that allows one text.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>

#include "core/step/token_matcher.h"

namespace quire::testing {

// Forces no token, so that the engine draws each of them.
class OneText final : public TokenConstraint {
 public:
  explicit OneText(TokenIds text) : text_(std::move(text)) {}
  std::unique_ptr<TokenMatcher> start() const override { return std::make_unique<Place>(text_); }

 private:
  class Place final : public TokenMatcher {
   public:
    explicit Place(TokenIds text) : text_(std::move(text)) {}
    void mask(gsl::span<uint32_t> words) override {
      std::fill(words.begin(), words.end(), 0U);
      const auto token = static_cast<size_t>(text_.at(num_tokens_));
      words[token / 32] = 1U << (token % 32);
    }
    bool accept(TokenId token) override {
      if (token != text_.at(num_tokens_)) return false;
      ++num_tokens_;
      return true;
    }
    void rollback(int32_t num_tokens) override { num_tokens_ -= static_cast<size_t>(num_tokens); }
    bool may_end() const override { return false; }
    bool forces() const override { return true; }
    void force(int32_t, TokenIds&) const override {}
    std::unique_ptr<TokenMatcher> clone() const override { return std::make_unique<Place>(*this); }

   private:
    TokenIds text_;
    size_t num_tokens_ = 0;  // accepted so far
  };

  TokenIds text_;
};

}  // namespace quire::testing
