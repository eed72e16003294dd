// Loads the "model" of a tokenizer.json: BPE, unigram, WordPiece or WordLevel.
#pragma once

#include <memory>

#include "core/base/json.h"
#include "core/tokenizer/subword_model.h"
#include "core/tokenizer/vocabulary.h"

namespace quire {

enum class ModelType { bpe, unigram, word_piece, word_level };

// Returns the type given by "type" or, in files from before 2020, by the fields. Throws
// ErrorCode::unsupported for other types.
ModelType model_type(const JsonView& model);

// `vocabulary` must outlive the model. `byte_level` (BPE only): pieces are bytes, which the vocabulary
// contains as characters of the byte alphabet.
std::unique_ptr<SubwordModel> load_model(const JsonView& model, bool byte_level,
                                         const Vocabulary& vocabulary);

}  // namespace quire
