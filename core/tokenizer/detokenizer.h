// Text as it is generated: token in, whole code points out.
#pragma once

#include <string>

#include "core/base/ids.h"
#include "core/tokenizer/decoder.h"
#include "core/tokenizer/tokenizer.h"

namespace quire {

// What all push() and finish() append is what Tokenizer::decode() makes of all the ids. A small value: a copy
// goes on from the same place, so that a job can fork or go back. One thread at a time. The tokenizer must
// outlive it.
class Detokenizer {
 public:
  explicit Detokenizer(const Tokenizer& tokenizer, bool skip_special = true)
      : tokenizer_(&tokenizer), skip_special_(skip_special) {}

  // Appends the whole code points that `id` completes. Held back are at most 3 bytes of an unfinished one,
  // and what the decoder cannot decide yet: the text of one token, or of one pattern. Bytes that cannot
  // become UTF-8 are U+FFFD at once. Ids without a token add nothing.
  void push(TokenId id, std::string& text);
  // Appends what is held back, U+FFFD for an unfinished code point, and begins anew. True where something was
  // appended.
  bool finish(std::string& text);

  size_t num_held_bytes() const;

 private:
  const Tokenizer* tokenizer_;
  DecodeState state_;
  bool skip_special_;
};

}  // namespace quire
