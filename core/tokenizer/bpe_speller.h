// The first step of BPE: maps single characters to tokens, with byte fallback or an unknown token for the
// others.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "core/tokenizer/byte_fallback.h"
#include "core/tokenizer/char_tokens.h"
#include "core/tokenizer/vocabulary.h"

namespace quire {

// The character table of a BPE model, immutable and safe to use from any thread.
class BpeSpeller {
 public:
  // The characters of a piece: those of the text, or its bytes, which the vocabulary contains as characters
  // of the byte alphabet.
  enum class Alphabet { characters, bytes };

  struct Options {
    Alphabet alphabet = Alphabet::characters;
    bool byte_fallback = false;
    bool fuse_unknown = false;       // adjacent unknown characters become one token
    std::string unknown;             // the token for unknown characters; if empty, they are dropped
    std::string continuing_prefix;   // put before every character except the first
    std::string end_of_word_suffix;  // put after the last character
  };

  BpeSpeller() = default;
  // Encoding throws ErrorCode::unsupported naming `where` if an unknown character needs a token that the
  // vocabulary does not have.
  BpeSpeller(const Vocabulary& vocabulary, Options options, std::string where);

  // Appends the initial tokens of a piece.
  void spell(std::string_view piece, TokenIds& tokens) const;

  Alphabet alphabet() const { return options_.alphabet; }
  // Returns whether a character's token depends on its place in the piece.
  bool has_affixes() const {
    return !options_.continuing_prefix.empty() || !options_.end_of_word_suffix.empty();
  }
  // Returns a character's token or CharTokens::kNone. Only valid without affixes.
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
