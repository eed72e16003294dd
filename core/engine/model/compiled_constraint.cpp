#include "core/engine/model/compiled_constraint.h"

#include <algorithm>

namespace quire {
namespace {

class CompiledMatcher final : public TokenMatcher {
 public:
  explicit CompiledMatcher(const std::shared_ptr<const Constraint>& constraint) : matcher_(constraint) {}

  void mask(gsl::span<uint32_t> words) override {
    scratch_.resize(vocabulary().num_words());
    matcher_.mask(scratch_);
    if (matcher_.may_end()) take_ends_out();
    // The model and its tokenizer may have different numbers of tokens.
    const size_t num_shared = std::min(words.size(), scratch_.size());
    std::copy_n(scratch_.begin(), num_shared, words.begin());
    std::fill(words.begin() + static_cast<ptrdiff_t>(num_shared), words.end(), 0U);
  }
  bool accept(TokenId token) override { return matcher_.accept(token); }
  bool forces() const override { return true; }
  void force(int32_t max_tokens, TokenIds& out) const override {
    matcher_.force(static_cast<size_t>(max_tokens), out);
  }
  void rollback(int32_t num_tokens) override { matcher_.rollback(static_cast<size_t>(num_tokens)); }
  std::string exceeded_limit() const override { return matcher_.exceeded_limit(); }
  bool may_end() const override { return matcher_.may_end(); }
  std::unique_ptr<TokenMatcher> clone() const override { return std::make_unique<CompiledMatcher>(*this); }

 private:
  const TokenVocabulary& vocabulary() const { return matcher_.constraint().vocabulary(); }

  // Clears the end tokens of the vocabulary: the engine itself allows those that end the job.
  void take_ends_out() {
    for (const TokenId end : vocabulary().ends())
      scratch_[static_cast<size_t>(end) / 32] &= ~(1U << (static_cast<uint32_t>(end) % 32));
  }

  Matcher matcher_;
  TokenBits scratch_;
};

}  // namespace

std::unique_ptr<TokenMatcher> CompiledConstraint::start() const {
  return std::make_unique<CompiledMatcher>(constraint_);
}

}  // namespace quire
