// Which dialect answers are written in.
#pragma once

#include <string>

#include "capi/src/chat_render.h"
#include "capi/src/model_object.h"
#include "core/response/dialect.h"
#include "core/response/response_grammar.h"
#include "core/tokenizer/tokenizer.h"

namespace quire::capi {

// The special tokens of a vocabulary by their texts.
SpecialTokens special_tokens_of(const Tokenizer& tokenizer);

// What the template for tools tells; where that says nothing, or there is no template, what the special
// tokens of the vocabulary tell. Either may be null.
const Dialect& detect_dialect(const ChatShare* chat, const Tokenizer* tokenizer);
// Of a model with its own template.
const Dialect& dialect_of(const ModelShare& model);

}  // namespace quire::capi
