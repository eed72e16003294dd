// Adapter from the tokenizer to the engine's TextCodec.
#pragma once

#include <memory>
#include <utility>

#include "core/engine/events/text_codec.h"
#include "core/tokenizer/tokenizer.h"

namespace quire {

class TokenizerCodec final : public TextCodec {
 public:
  // Null for a model without a tokenizer: its tokens have no text.
  explicit TokenizerCodec(std::shared_ptr<const Tokenizer> tokenizer) : tokenizer_(std::move(tokenizer)) {}

  std::unique_ptr<TextStream> open(bool emit_special) const override;

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
};

}  // namespace quire
