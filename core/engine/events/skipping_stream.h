// Text that a reader has already.
#pragma once

#include <memory>

#include "core/base/ids.h"
#include "core/engine/events/text_codec.h"

namespace quire {

// A stream without the text that it would give for `token` as its first one.
std::unique_ptr<TextStream> without_text_of(std::unique_ptr<TextStream> stream, TokenId token);

}  // namespace quire
