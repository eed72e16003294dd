// Word models: WordLevel (whole words) and WordPiece (longest prefix, then longest continuations).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/tokenizer/byte_trie.h"
#include "core/tokenizer/subword_model.h"
#include "core/tokenizer/vocabulary.h"

namespace quire {

// The token for unknown words. Immutable.
class UnknownWord {
 public:
  UnknownWord(const Vocabulary& vocabulary, std::string text, std::string where);
  // Throws ErrorCode::unsupported if the vocabulary has no such token.
  TokenId id() const;

 private:
  std::string text_;
  std::string where_;
  std::optional<TokenId> id_;
};

// WordLevel: each piece is one token.
class WordLevel final : public SubwordModel {
 public:
  // `vocabulary` must outlive the model.
  WordLevel(const Vocabulary& vocabulary, UnknownWord unknown)
      : vocabulary_(vocabulary), unknown_(std::move(unknown)) {}
  void encode(std::string_view piece, bool allow_special, EncodeScratch& scratch,
              TokenIds& ids) const override;

 private:
  const Vocabulary& vocabulary_;
  UnknownWord unknown_;
};

// WordPiece: takes the longest token that the rest of the word begins with, from the left. A word that cannot
// be split this way is unknown as a whole.
class WordPiece final : public SubwordModel {
 public:
  static constexpr size_t kMaxTokenBytes = 512;

  struct Parts {
    std::string continuing_prefix;  // prefix of tokens that continue a word
    size_t max_word_chars = 100;    // longer words are unknown
  };

  // `vocabulary` must outlive the model. Throws ErrorCode::unsupported naming `where` for a token above
  // kMaxTokenBytes.
  WordPiece(const Vocabulary& vocabulary, Parts parts, UnknownWord unknown, const std::string& where);
  void encode(std::string_view piece, bool allow_special, EncodeScratch& scratch,
              TokenIds& ids) const override;

 private:
  struct Match {
    TokenId id = -1;
    size_t num_bytes = 0;
  };
  Match longest(const ByteTrie& trie, std::string_view text, bool allow_special) const;

  const Vocabulary& vocabulary_;
  UnknownWord unknown_;
  size_t max_word_chars_;
  ByteTrie beginnings_;
  ByteTrie continuations_;  // without the prefix
};

}  // namespace quire
