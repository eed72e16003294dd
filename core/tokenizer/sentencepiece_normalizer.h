// The normalizer of SentencePiece models: replacements, and spaces written as a visible character.
#pragma once

#include <string>
#include <string_view>

#include "core/tokenizer/byte_trie.h"
#include "core/tokenizer/charsmap.h"
#include "core/tokenizer/normalizer.h"

namespace quire {

class SentencePieceNormalizer final : public Normalizer {
 public:
  struct Options {
    Charsmap map;
    ByteTrie kept;                         // user-defined pieces, which are not replaced
    bool add_dummy_prefix = true;          // adds a space before the text
    bool remove_extra_whitespaces = true;  // removes spaces at the ends, and all but one elsewhere
    bool escape_whitespaces = true;        // writes a space as U+2581
  };
  explicit SentencePieceNormalizer(Options options) : options_(std::move(options)) {}
  std::string normalize(std::string_view text, EncodeScratch& scratch) const override;

 private:
  Charsmap::Match next(std::string_view text) const;
  std::string_view space() const { return options_.escape_whitespaces ? "\xe2\x96\x81" : " "; }

  Options options_;
};

}  // namespace quire
