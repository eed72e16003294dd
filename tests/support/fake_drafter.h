// Drafter of tests: proposes the known answers of jobs, with mistakes.
#pragma once

#include <algorithm>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "core/drafting/drafter.h"

namespace quire::testing {

// Texts that jobs are known to write, each with its prompt. Shared by a test and its drafter.
struct KnownTexts {
  std::vector<TokenIds> texts;
  double chance = 1.0;     // with which a draft is right
  int64_t num_asked = 0;   // requests so far
  int64_t num_drafts = 0;  // drafts so far
  int64_t num_broken = 0;  // requests whose unchanged tokens had changed
};

// Proposes what follows the history in a known text. Without such a text it proposes random tokens, and every
// draft is replaced by a random token with the probability 1 - chance.
class FakeDrafter final : public Drafter {
 public:
  FakeDrafter(std::shared_ptr<KnownTexts> known, TokenId num_tokens, uint64_t seed)
      : known_(std::move(known)), num_tokens_(num_tokens), random_(seed) {}

  void draft(gsl::span<const DraftRequest> requests) override {
    for (const DraftRequest& request : requests) {
      ++known_->num_asked;
      check(request);
      const TokenIds* const text = text_of(request.history);
      const auto num_drafts = 1 + static_cast<size_t>(random_() % static_cast<uint64_t>(request.max_drafts));
      for (size_t i = request.history.size(); i < request.history.size() + num_drafts; ++i) {
        const bool is_right = text != nullptr && i < text->size() &&
                              std::uniform_real_distribution<double>(0.0, 1.0)(random_) < known_->chance;
        request.drafts->push_back(
            is_right ? (*text)[i] : static_cast<TokenId>(random_() % static_cast<uint64_t>(num_tokens_)));
      }
      known_->num_drafts += static_cast<int64_t>(num_drafts);
    }
  }
  uint64_t memory_bytes() const override { return 0; }

 private:
  struct Seen final : DraftState {
    TokenIds history;
  };

  void check(const DraftRequest& request) {
    if (*request.state == nullptr) *request.state = std::make_unique<Seen>();
    TokenIds& seen = static_cast<Seen&>(**request.state).history;
    const auto num_unchanged = static_cast<size_t>(request.num_unchanged);
    const bool is_unchanged =
        num_unchanged <= std::min(seen.size(), request.history.size()) &&
        std::equal(seen.begin(), seen.begin() + request.num_unchanged, request.history.begin());
    if (!is_unchanged) ++known_->num_broken;
    seen.assign(request.history.begin(), request.history.end());
  }

  const TokenIds* text_of(gsl::span<const TokenId> history) const {
    const auto text = std::find_if(known_->texts.begin(), known_->texts.end(), [&](const TokenIds& known) {
      return known.size() > history.size() && std::equal(history.begin(), history.end(), known.begin());
    });
    return text == known_->texts.end() ? nullptr : &*text;
  }

  std::shared_ptr<KnownTexts> known_;
  TokenId num_tokens_;
  std::mt19937_64 random_;
};

}  // namespace quire::testing
