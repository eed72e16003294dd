// The parts of a tokenizer, which the loader creates. Private to this folder.
#pragma once

#include <memory>
#include <optional>

#include "core/base/ids.h"
#include "core/tokenizer/added_tokens.h"
#include "core/tokenizer/decoder.h"
#include "core/tokenizer/normalizer.h"
#include "core/tokenizer/post_processor.h"
#include "core/tokenizer/pre_tokenizer.h"
#include "core/tokenizer/subword_model.h"
#include "core/tokenizer/tokenizer.h"
#include "core/tokenizer/vocabulary.h"

namespace quire {

// The order of members matters: model and decoder refer to the vocabulary.
struct TokenizerParts {
  // Tokens that the files name by their use.
  struct NamedTokens {
    std::optional<TokenId> bos;
    std::optional<TokenId> eos;
    std::optional<TokenId> pad;
    std::optional<TokenId> unk;
  };
  Vocabulary vocabulary;
  TokenIds special_ids;
  AddedTokenMatcher raw_tokens;                 // matched in the raw text
  AddedTokenMatcher normalized_tokens;          // matched in the normalized rest
  std::unique_ptr<Normalizer> normalizer;       // may be null
  std::unique_ptr<PreTokenizer> pre_tokenizer;  // may be null
  std::unique_ptr<SubwordModel> model;
  std::unique_ptr<Decoder> decoder;
  PostProcessor post_processor;
  NamedTokens named;
};

std::unique_ptr<const TokenizerParts> load_tokenizer_parts(const TokenizerFiles& files);

}  // namespace quire
