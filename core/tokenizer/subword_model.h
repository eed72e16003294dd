// The seam between splitting and ids: a model turns one piece of text into tokens.
#pragma once

#include <string_view>

#include "core/base/ids.h"

namespace quire {

struct EncodeScratch;

// Immutable; any thread, each with its own scratch.
class SubwordModel {
 public:
  virtual ~SubwordModel() = default;
  // Appends the ids of one piece that the pre-tokenizer left, not empty. Without allow_special none of them
  // is a special token, as far as the vocabulary has another way to spell the piece.
  virtual void encode(std::string_view piece, bool allow_special, EncodeScratch& scratch,
                      TokenIds& ids) const = 0;
};

}  // namespace quire
