// Working memory of one encode call; the tokenizer itself is immutable.
#pragma once

#include "core/tokenizer/bpe.h"
#include "core/tokenizer/regex.h"
#include "core/tokenizer/unigram.h"

namespace quire {

struct EncodeScratch {
  explicit EncodeScratch(size_t num_text_bytes)
      : regex(num_text_bytes), max_normalized_bytes(65536 + 32 * num_text_bytes) {}

  RegexScratch regex;
  BpeScratch bpe;
  UnigramScratch unigram;
  size_t max_normalized_bytes;  // limit on the text after replacements
};

}  // namespace quire
