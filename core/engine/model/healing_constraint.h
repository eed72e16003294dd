// Healing of a prompt whose last token may be the beginning of a longer one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/constrained/token_trie.h"
#include "core/step/token_matcher.h"

namespace quire {

// The first tokens begin with a text: that of the token taken off the prompt. What comes after it is free.
class HealingConstraint final : public TokenConstraint {
 public:
  // `text` is that of a token of the vocabulary, not empty.
  HealingConstraint(std::shared_ptr<const TokenVocabulary> vocabulary, std::string text);

  std::unique_ptr<TokenMatcher> start() const override;

 private:
  struct Text {
    std::shared_ptr<const TokenVocabulary> vocabulary;
    std::string bytes;
    std::vector<bool> leads_on;  // by bytes done: whether tokens can spell the rest
  };
  class Place;

  std::shared_ptr<const Text> text_;
};

}  // namespace quire
