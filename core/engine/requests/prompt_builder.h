// Builds the token ids of a prompt from texts, tokens, special tokens and messages.
#pragma once

#include <string>

#include "core/base/ids.h"
#include "core/engine/model/model_loader.h"
#include "core/engine/requests/request_spec.h"

namespace quire {

// Tokenizes the prompt on the caller's thread. `words`, unless null, receives the text of the prompt with
// special tokens. For messages it receives only the text that the template wrote, and one "." for each piece
// of content. Throws ErrorCode::invalid_argument, ErrorCode::encoding or ErrorCode::not_found naming the
// field or the part.
TokenIds encode_prompt(const RequestSpec& spec, const LoadedModel& model, std::string* words = nullptr);

// Tokenizes the negative prompt, which has at least one part and no messages. Throws like encode_prompt.
TokenIds encode_negative_prompt(const RequestSpec& spec, const Model& model);

}  // namespace quire
