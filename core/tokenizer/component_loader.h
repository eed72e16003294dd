// The parts of a tokenizer.json that say what is done to text, each from its JSON. A "type" or a field that
// is not known is ErrorCode::unsupported, naming it; a malformed one ErrorCode::format.
#pragma once

#include <initializer_list>
#include <memory>
#include <string_view>

#include "core/base/json.h"
#include "core/tokenizer/decoder.h"
#include "core/tokenizer/normalizer.h"
#include "core/tokenizer/post_processor.h"
#include "core/tokenizer/pre_tokenizer.h"
#include "core/tokenizer/vocabulary.h"

namespace quire {

// Throws ErrorCode::unsupported naming the first key of `object` that is not in `known`.
void refuse_unknown_keys(const JsonView& object, std::initializer_list<std::string_view> known);

std::unique_ptr<Normalizer> load_normalizer(const JsonView& json);

struct LoadedPreTokenizer {
  std::unique_ptr<PreTokenizer> pre_tokenizer;  // null where pieces are whole texts
  bool byte_level = false;                      // the model sees bytes, not characters
};
LoadedPreTokenizer load_pre_tokenizer(const JsonView& json);

// `vocabulary` must outlive the decoder.
std::unique_ptr<Decoder> load_decoder(const JsonView& json, const Vocabulary& vocabulary);

PostProcessor load_post_processor(const JsonView& json, const Vocabulary& vocabulary);

}  // namespace quire
