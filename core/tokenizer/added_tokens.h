// Added tokens: found in the text before pre-tokenization. They are special tokens, and ordinary tokens that
// a file adds.
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
  bool single_word = false;  // matches only if no word character is next to it
  bool lstrip = false;       // also removes the white space before it
  bool rstrip = false;       // also removes the white space after it
  bool normalized = false;   // matched in normalized text, in its own normalized form
  bool special = false;      // a control token, not text
};

// A range of bytes in a text.
struct TextRange {
  size_t begin = 0;
  size_t end = 0;
};

// Returns whether `inner` is entirely inside one of `ranges`, which are sorted and disjoint.
bool is_inside(const TextRange& inner, gsl::span<const TextRange> ranges);

// The parts of a text in which special tokens are recognized.
struct SpecialRanges {
  gsl::span<const TextRange> ranges;  // sorted and disjoint
  // If true, ordinary tokens that look like markers, such as "<tool_call>", are also found only there.
  bool restrict_markers = false;
};

// Returns whether a text is spelled like a control marker: "<x>", "[X]" or "<|x".
bool looks_like_marker(std::string_view text);

// A matcher for a set of added tokens. The leftmost match wins; of several at the same place, the longest. A
// special token matches only if the whole match is in a range that allows special tokens; elsewhere its text
// is plain text. (With encode_special_tokens, the `tokenizers` library also skips all tokens that overlap the
// text of a special token; here an ordinary added token inside it is found.)
class AddedTokenMatcher {
 public:
  // Receiver of the tokens, and of the non-empty texts between them with their positions.
  class Sink {
   public:
    virtual ~Sink() = default;
    virtual void text(std::string_view segment, size_t offset) = 0;
    virtual void token(TokenId id) = 0;
  };

  // Longer token texts would make matching slow for every text.
  static constexpr size_t kMaxTokenBytes = 512;

  // `text` is the text to match, which may be normalized. An empty text never matches; of equal texts the
  // first one counts.
  void add(const AddedToken& token, std::string_view text);

  // Splits a text in linear time.
  void split(std::string_view text, const SpecialRanges& special, Sink& sink) const;

 private:
  struct Match {
    const AddedToken* token = nullptr;
    size_t end = 0;
  };
  Match match_at(std::string_view text, size_t begin, const SpecialRanges& special) const;

  std::vector<AddedToken> tokens_;
  std::vector<bool> is_marker_;  // parallel to tokens_
  ByteTrie trie_;
};

}  // namespace quire
