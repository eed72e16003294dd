// How a byte-pair encoding begins: the tokens of single characters, and what stands for those without one.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "core/tokenizer/byte_fallback.h"
#include "core/tokenizer/char_tokens.h"
#include "core/tokenizer/vocabulary.h"

namespace quire {

// Immutable; any thread.
class BpeSpeller {
 public:
  // What the characters of a piece are: those of the text, or its bytes, for which the vocabulary has the
  // characters of the byte alphabet.
  enum class Alphabet { characters, bytes };

  struct Options {
    Alphabet alphabet = Alphabet::characters;
    bool byte_fallback = false;
    bool fuse_unknown = false;       // neighbouring unknowns become one token
    std::string unknown;             // the token for them; empty where they are dropped
    std::string continuing_prefix;   // put before every character but the first
    std::string end_of_word_suffix;  // and after the last
  };

  BpeSpeller() = default;
  // ErrorCode::unsupported, naming `where`, may come later: where an unknown character needs a token that
  // the vocabulary does not have.
  BpeSpeller(const Vocabulary& vocabulary, Options options, std::string where);

  // Appends the tokens of a piece.
  void spell(std::string_view piece, TokenIds& tokens) const;

  Alphabet alphabet() const { return options_.alphabet; }
  // Whether a character's token depends on its place.
  bool has_affixes() const {
    return !options_.continuing_prefix.empty() || !options_.end_of_word_suffix.empty();
  }
  // A character's token, or CharTokens::kNone; only where it does not depend on its place.
  TokenId token(uint32_t code_point) const { return tables_[0].find(code_point); }

 private:
  static constexpr size_t kContinuing = 1;  // bits of a place
  static constexpr size_t kLast = 2;

  void fill_table(const Vocabulary& vocabulary, size_t place);
  std::string spelled(std::string_view character, size_t place) const;
  void append_unknown(std::string_view character, TokenIds& tokens, std::optional<TokenId>& unknown) const;

  Options options_;
  std::string where_;
  std::array<CharTokens, 4> tables_;  // by place
  ByteFallback fallback_;
  std::optional<TokenId> unknown_;
};

}  // namespace quire
