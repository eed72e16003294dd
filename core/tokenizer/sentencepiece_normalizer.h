// What SentencePiece does to a text before it is cut: replacements, and spaces that become visible.
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
    ByteTrie kept;                         // texts that are not replaced: user-defined pieces
    bool add_dummy_prefix = true;          // a space before the text
    bool remove_extra_whitespaces = true;  // at the ends, and all but one elsewhere
    bool escape_whitespaces = true;        // a space is written as U+2581
  };
  explicit SentencePieceNormalizer(Options options) : options_(std::move(options)) {}
  std::string normalize(std::string_view text, EncodeScratch& scratch) const override;

 private:
  Charsmap::Match next(std::string_view text) const;
  std::string_view space() const { return options_.escape_whitespaces ? "\xe2\x96\x81" : " "; }

  Options options_;
};

}  // namespace quire
