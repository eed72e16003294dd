// Streaming detokenizer: takes tokens, returns whole code points.
#pragma once

#include <string>

#include "core/base/ids.h"
#include "core/tokenizer/decoder.h"
#include "core/tokenizer/tokenizer.h"

namespace quire {

// The texts that push() and finish() append are, together, what Tokenizer::decode() returns for all ids. A
// small value: a copy continues from the same position, so that a job can fork or go back. One thread at a
// time. The tokenizer must outlive it.
class Detokenizer {
 public:
  explicit Detokenizer(const Tokenizer& tokenizer, bool skip_special = true)
      : tokenizer_(&tokenizer), skip_special_(skip_special) {}

  // Appends the whole code points that `id` completes. Holds back at most 3 bytes of an incomplete code
  // point, and text that the decoder cannot decode yet: one token or one pattern. Invalid UTF-8 becomes
  // U+FFFD at once. Ids without a token add nothing.
  void push(TokenId id, std::string& text);
  // Appends the held text, with U+FFFD for an incomplete code point, and starts over. Returns whether
  // anything was appended.
  bool finish(std::string& text);

  size_t num_held_bytes() const;

 private:
  const Tokenizer* tokenizer_;
  DecodeState state_;
  bool skip_special_;
};

}  // namespace quire
