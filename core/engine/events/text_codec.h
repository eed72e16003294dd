// Interface from tokens to text. The tokenizer implements it; tests use a small fake.
#pragma once

#include <memory>
#include <string>

#include "core/base/ids.h"

namespace quire {

// Decodes the tokens of one sequence one by one. Not thread-safe.
class TextStream {
 public:
  virtual ~TextStream() = default;
  // Appends the whole code points that `token` completes; holds back an incomplete character.
  virtual void push(TokenId token, std::string& text) = 0;
  // Appends what is still held back, as U+FFFD. No token may be pushed afterwards.
  virtual void finish(std::string& text) = 0;
  virtual std::unique_ptr<TextStream> clone() const = 0;
  // True if tokens never have text, so that none waits for it.
  virtual bool is_silent() const { return false; }
};

// Immutable and thread-safe.
class TextCodec {
 public:
  virtual ~TextCodec() = default;
  // With emit_special, special tokens have text as well.
  virtual std::unique_ptr<TextStream> open(bool emit_special) const = 0;
};

}  // namespace quire
