// Loads the components of a tokenizer.json: normalizer, pre-tokenizer, post-processor and decoder. An unknown
// "type" or field throws ErrorCode::unsupported naming it; a malformed one throws ErrorCode::format.
#pragma once

#include <memory>

#include "core/base/json.h"
#include "core/tokenizer/decoder.h"
#include "core/tokenizer/normalizer.h"
#include "core/tokenizer/post_processor.h"
#include "core/tokenizer/pre_tokenizer.h"
#include "core/tokenizer/vocabulary.h"

namespace quire {

std::unique_ptr<Normalizer> load_normalizer(const JsonView& json);

struct LoadedPreTokenizer {
  std::unique_ptr<PreTokenizer> pre_tokenizer;  // null if whole texts are pieces
  bool byte_level = false;                      // the model gets the pieces as bytes in the byte alphabet
};
// If `model_reads_bytes` is true, a final ByteLevel step is left to the model.
LoadedPreTokenizer load_pre_tokenizer(const JsonView& json, bool model_reads_bytes);

// `vocabulary` must outlive the decoder.
std::unique_ptr<Decoder> load_decoder(const JsonView& json, const Vocabulary& vocabulary);

PostProcessor load_post_processor(const JsonView& json, const Vocabulary& vocabulary);

}  // namespace quire
