// Token healing: the last token of a prompt may be the beginning of a longer one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/constrained/token_trie.h"
#include "core/step/token_matcher.h"

namespace quire {

// Requires that the first generated tokens begin with the text of the token removed from the prompt. The text
// after it is free.
class HealingConstraint final : public TokenConstraint {
 public:
  // `text` is the text of a token of the vocabulary, not empty.
  HealingConstraint(std::shared_ptr<const TokenVocabulary> vocabulary, std::string text);

  std::unique_ptr<TokenMatcher> start() const override;

 private:
  struct Text {
    std::shared_ptr<const TokenVocabulary> vocabulary;
    std::string bytes;
    std::vector<bool> leads_on;  // by number of bytes done: true if tokens can spell the rest
  };
  class Place;

  std::shared_ptr<const Text> text_;
};

}  // namespace quire
