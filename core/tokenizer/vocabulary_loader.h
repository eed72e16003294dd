// Loads the tokens of a model: its vocabulary, and the added tokens of all tokenizer files.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/tokenizer/added_tokens.h"
#include "core/tokenizer/vocabulary.h"

namespace quire {

// The parsed tokenizer files; absent if the file does not exist.
struct TokenizerJson {
  std::optional<JsonView> tokenizer;
  std::optional<JsonView> config;
  std::optional<JsonView> special_tokens_map;
  std::optional<JsonView> added_tokens;
};

// Returns the entries of "model"."vocab", a map to ids or a list with scores, in the order of the file.
std::vector<Vocabulary::Entry> load_model_tokens(const JsonView& vocab);

// Returns all added tokens with their ids. tokenizer_config.json can override the flags of tokenizer.json;
// tokens that it names as BOS, EOS, padding and so on are special. The ids of a token must agree in all
// files.
std::vector<AddedToken> load_added_tokens(const TokenizerJson& json,
                                          const std::vector<Vocabulary::Entry>& model);

// Returns the token that one of the files gives for a name such as "bos_token".
std::optional<std::string> named_token(const TokenizerJson& json, std::string_view name);

}  // namespace quire
