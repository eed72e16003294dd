#include "core/tokenizer/detokenizer.h"

namespace quire {

void Detokenizer::push(TokenId id, std::string& text) {
  if (!tokenizer_->contains(id)) return;
  if (skip_special_ && tokenizer_->is_special(id)) return;
  tokenizer_->decoder().push(id, state_, text);
}

bool Detokenizer::finish(std::string& text) {
  const bool incomplete = state_.utf8.finish(text);
  state_ = DecodeState{};
  return incomplete;
}

}  // namespace quire
