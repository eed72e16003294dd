// The parts of a tokenizer.json that say what is done to text, each from its JSON. A "type" or a field that
// is not known is ErrorCode::unsupported, naming it; a malformed one ErrorCode::format.
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
  std::unique_ptr<PreTokenizer> pre_tokenizer;  // null where pieces are whole texts
  bool byte_level = false;  // pieces are bytes that the model is to see in the byte alphabet
};
// `model_reads_bytes`: a last step of ByteLevel is left to the model.
LoadedPreTokenizer load_pre_tokenizer(const JsonView& json, bool model_reads_bytes);

// `vocabulary` must outlive the decoder.
std::unique_ptr<Decoder> load_decoder(const JsonView& json, const Vocabulary& vocabulary);

PostProcessor load_post_processor(const JsonView& json, const Vocabulary& vocabulary);

}  // namespace quire
