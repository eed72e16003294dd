// Shared by the loaders of all file formats: builds the parts of a tokenizer from files and token lists.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/tokenizer/added_tokens.h"
#include "core/tokenizer/tokenizer_parts.h"
#include "core/tokenizer/vocabulary_loader.h"

namespace quire {

// The parsed files, kept alive while views of them are used.
class ParsedTokenizerFiles {
 public:
  explicit ParsedTokenizerFiles(const TokenizerFiles& files)
      : tokenizer_(parse_optional(files.tokenizer_json, kTokenizer)),
        config_(parse_optional(files.tokenizer_config_json, kConfig)),
        special_tokens_map_(parse_optional(files.special_tokens_map_json, kSpecialTokensMap)),
        added_tokens_(parse_optional(files.added_tokens_json, kAddedTokens)) {}

  TokenizerJson views() const {
    return {view(tokenizer_, kTokenizer), view(config_, kConfig),
            view(special_tokens_map_, kSpecialTokensMap), view(added_tokens_, kAddedTokens)};
  }

 private:
  static constexpr const char* kTokenizer = "tokenizer.json";
  static constexpr const char* kConfig = "tokenizer_config.json";
  static constexpr const char* kSpecialTokensMap = "special_tokens_map.json";
  static constexpr const char* kAddedTokens = "added_tokens.json";

  static std::optional<JsonValue> parse_optional(std::string_view text, const char* name) {
    if (text.empty()) return std::nullopt;
    return parse_json(text, name);
  }
  static std::optional<JsonView> view(const std::optional<JsonValue>& json, const char* name) {
    if (!json) return std::nullopt;
    return JsonView(*json, name);
  }

  std::optional<JsonValue> tokenizer_;
  std::optional<JsonValue> config_;
  std::optional<JsonValue> special_tokens_map_;
  std::optional<JsonValue> added_tokens_;
};

// Makes the vocabulary from the tokens of the model and the added tokens.
Vocabulary make_vocabulary(std::vector<Vocabulary::Entry> entries, const std::vector<AddedToken>& added,
                           const std::string& where);

// Fills in the parts that depend on the vocabulary and the normalizer, which must be set: the added token
// matchers, and the ids of BOS, EOS and similar tokens.
void finish_parts(const TokenizerJson& json, const std::vector<AddedToken>& added, TokenizerParts& parts);

// Special tokens of a file format, by their use.
struct NamedTexts {
  std::string_view bos;
  std::string_view eos;
  std::string_view pad;
  std::string_view unk;
};
// Names the tokens that the other files do not name, if they exist.
void name_tokens(const NamedTexts& texts, TokenizerParts& parts);

struct AroundText {
  bool adds_bos = false;
  bool adds_eos = false;
};
// Returns the post-processor of a format that has none: tokenizer_config.json decides, otherwise `usual`.
PostProcessor around_text(const TokenizerJson& json, const AroundText& usual,
                          const TokenizerParts::NamedTokens& named);

// Load a SentencePiece model, a rank file of tiktoken, and a tekken.json.
std::unique_ptr<const TokenizerParts> load_sentencepiece_parts(const TokenizerFiles& files);
std::unique_ptr<const TokenizerParts> load_tiktoken_parts(const TokenizerFiles& files);
std::unique_ptr<const TokenizerParts> load_tekken_parts(const TokenizerFiles& files);

}  // namespace quire
