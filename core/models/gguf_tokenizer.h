// The tokenizer of a GGUF model as the files that a directory has: tokenizer.json or a SentencePiece model,
// and tokenizer_config.json with the chat templates.
#pragma once

#include "core/loader/gguf_metadata.h"
#include "core/models/model_source.h"

namespace quire {

// Returns whether the file has a vocabulary.
bool has_gguf_tokenizer(const GgufMetadata& metadata);

// Throws ErrorCode::format that names the key that is malformed, ErrorCode::unsupported for a kind of
// tokenizer or pre-tokenizer that this build lacks.
TokenizerTexts gguf_tokenizer(const GgufMetadata& metadata);

// Returns tokenizer_config.json alone. Throws the same errors.
std::string gguf_tokenizer_config(const GgufMetadata& metadata);

}  // namespace quire
