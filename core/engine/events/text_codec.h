// The seam from tokens to text. The tokenizer implements it; tests put a small one in its place.
#pragma once

#include <memory>
#include <string>

#include "core/base/ids.h"

namespace quire {

// Turns the tokens of one sequence into text, one by one. One thread at a time.
class TextStream {
 public:
  virtual ~TextStream() = default;
  // Appends to `text` the whole code points that `token` completes; half a character is kept back.
  virtual void push(TokenId token, std::string& text) = 0;
  // Appends what is still kept back, as U+FFFD. Nothing is pushed afterwards.
  virtual void finish(std::string& text) = 0;
  virtual std::unique_ptr<TextStream> clone() const = 0;
  // True where no token ever has text, so that none waits for it.
  virtual bool is_silent() const { return false; }
};

// Immutable; any thread.
class TextCodec {
 public:
  virtual ~TextCodec() = default;
  // With emit_special the text of special tokens is part of the text.
  virtual std::unique_ptr<TextStream> open(bool emit_special) const = 0;
};

}  // namespace quire
