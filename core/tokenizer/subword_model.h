// The interface of tokenizer models (BPE, unigram, ...), which turn one piece of text into tokens.
#pragma once

#include <string_view>

#include "core/base/ids.h"

namespace quire {

struct EncodeScratch;

// A model, immutable and safe to use from any thread with a separate scratch.
class SubwordModel {
 public:
  virtual ~SubwordModel() = default;
  // Appends the ids of one non-empty piece of the pre-tokenizer. Without allow_special, none of them is a
  // special token, if the vocabulary can spell the piece in another way.
  virtual void encode(std::string_view piece, bool allow_special, EncodeScratch& scratch,
                      TokenIds& ids) const = 0;
};

}  // namespace quire
