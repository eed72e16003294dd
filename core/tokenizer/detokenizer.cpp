#include "core/tokenizer/detokenizer.h"

namespace quire {

void Detokenizer::push(TokenId id, std::string& text) {
  if (!tokenizer_->contains(id)) return;
  if (skip_special_ && tokenizer_->is_special(id)) return;
  tokenizer_->decoder().push(id, state_, text);
}

bool Detokenizer::finish(std::string& text) {
  const size_t num_before = text.size();
  tokenizer_->decoder().finish(state_, text);
  state_ = DecodeState{};
  return text.size() > num_before;
}

size_t Detokenizer::num_held_bytes() const {
  return tokenizer_->decoder().num_held_bytes(state_);
}

}  // namespace quire
