// A rendered conversation as tokens.
#pragma once

#include <vector>

#include "core/base/ids.h"
#include "core/chat/chat_template.h"
#include "core/tokenizer/tokenizer.h"

namespace quire::chat {

// Special tokens come from the template's bytes alone; content is text, whatever it contains. Nothing is
// added around it: the template writes what begins a prompt.
TokenIds encode_rendered(const Tokenizer& tokenizer, const RenderedChat& rendered);

}  // namespace quire::chat
