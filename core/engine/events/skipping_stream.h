// Suppresses text that the reader already has.
#pragma once

#include <memory>

#include "core/base/ids.h"
#include "core/engine/events/text_codec.h"

namespace quire {

// Returns a stream that omits the text that `stream` gives for `token` as its first token.
std::unique_ptr<TextStream> without_text_of(std::unique_ptr<TextStream> stream, TokenId token);

}  // namespace quire
