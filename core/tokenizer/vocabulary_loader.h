// The tokens of a model: its own vocabulary, and those added to it by any of the tokenizer's files.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/tokenizer/added_tokens.h"
#include "core/tokenizer/vocabulary.h"

namespace quire {

// The JSON of a tokenizer's files, those that are there.
struct TokenizerJson {
  std::optional<JsonView> tokenizer;
  std::optional<JsonView> config;
  std::optional<JsonView> special_tokens_map;
  std::optional<JsonView> added_tokens;
};

// The entries of "model"."vocab", a map to ids or a list with scores, in the order of the file.
std::vector<Vocabulary::Entry> load_model_tokens(const JsonView& vocab);

// Every added token, with its id. tokenizer_config.json may change what tokenizer.json says of one, and what
// it names as the beginning, end, padding and so on is special. A token's ids must agree in all files.
std::vector<AddedToken> load_added_tokens(const TokenizerJson& json,
                                          const std::vector<Vocabulary::Entry>& model);

// The token that one of the files names as, say, "bos_token".
std::optional<std::string> named_token(const TokenizerJson& json, std::string_view name);

}  // namespace quire
