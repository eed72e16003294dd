// Tokenizes a rendered conversation.
#pragma once

#include <vector>

#include "core/base/ids.h"
#include "core/chat/chat_template.h"
#include "core/tokenizer/tokenizer.h"

namespace quire::chat {

// Encodes the text. Special tokens are recognized only in bytes of the template; content is always plain
// text. No special tokens such as BOS are added: the template writes them.
TokenIds encode_rendered(const Tokenizer& tokenizer, const RenderedChat& rendered);

}  // namespace quire::chat
