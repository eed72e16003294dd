// The "model" of a tokenizer.json: how a piece of text becomes tokens.
#pragma once

#include <memory>

#include "core/base/json.h"
#include "core/tokenizer/subword_model.h"
#include "core/tokenizer/vocabulary.h"

namespace quire {

enum class ModelType { bpe, unigram, word_piece, word_level };

// By "type", or in files of before 2020 by the fields. ErrorCode::unsupported for any other.
ModelType model_type(const JsonView& model);

// `vocabulary` must outlive the model. `byte_level`: pieces are bytes, for which the vocabulary has the
// characters of the byte alphabet; BPE alone.
std::unique_ptr<SubwordModel> load_model(const JsonView& model, bool byte_level,
                                         const Vocabulary& vocabulary);

}  // namespace quire
