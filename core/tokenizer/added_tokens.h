// Tokens that are found in the text before it is split: special ones, and ordinary ones that a file adds.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <gsl/gsl>

#include "core/base/ids.h"
#include "core/tokenizer/byte_trie.h"

namespace quire {

struct AddedToken {
  std::string text;
  TokenId id = 0;
  bool single_word = false;  // only where no word character touches it
  bool lstrip = false;       // swallows the white space before it
  bool rstrip = false;       // and after it
  bool normalized = false;   // looked for in the normalized text, in its own normalized form
  bool special = false;      // control, not text
};

// A stretch of a text, by bytes.
struct TextRange {
  size_t begin = 0;
  size_t end = 0;
};

// Whether one of `ranges`, ascending and none overlapping, has all of `inner`.
bool is_inside(const TextRange& inner, gsl::span<const TextRange> ranges);

// Where special tokens may be found in a text.
struct SpecialRanges {
  gsl::span<const TextRange> ranges;  // ascending, none overlapping
  // Ordinary tokens that look like markers, such as "<tool_call>", may be found there alone as well.
  bool guards_markers = false;
};

// "<x>", "[X]", "<|x": the spelling of what speaks to a model and is no text.
bool looks_like_marker(std::string_view text);

// A set of added tokens in one text; the leftmost match wins, and of those the longest. A special token is
// only seen where the whole match lies in a range that allows special tokens; elsewhere its text is text.
// (The library's encode_special_tokens passes over the text of a special token with all that overlaps it;
// here, an ordinary added token inside it is found.)
class AddedTokenMatcher {
 public:
  // Takes what lies between the tokens, not empty, with its place in the text, and the tokens.
  class Sink {
   public:
    virtual ~Sink() = default;
    virtual void text(std::string_view segment, size_t offset) = 0;
    virtual void token(TokenId id) = 0;
  };

  // Texts longer than this would make matching slow for every text.
  static constexpr size_t kMaxTokenBytes = 512;

  // The text to look for is given apart from the token, since it may be normalized. One that is empty is
  // never found; of two that are equal the first is.
  void add(const AddedToken& token, std::string_view text);

  // Time is linear in the text.
  void split(std::string_view text, const SpecialRanges& special, Sink& sink) const;

 private:
  struct Match {
    const AddedToken* token = nullptr;
    size_t end = 0;
  };
  Match match_at(std::string_view text, size_t begin, const SpecialRanges& special) const;

  std::vector<AddedToken> tokens_;
  std::vector<bool> is_marker_;  // of tokens_
  ByteTrie trie_;
};

}  // namespace quire
