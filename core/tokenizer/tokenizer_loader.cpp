#include <algorithm>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/tokenizer/component_json.h"
#include "core/tokenizer/component_loader.h"
#include "core/tokenizer/encode_scratch.h"
#include "core/tokenizer/model_loader.h"
#include "core/tokenizer/tokenizer_parts.h"
#include "core/tokenizer/vocabulary_loader.h"

namespace quire {
namespace {

// Keeps the parsed files alive while the views into them are used.
class ParsedFiles {
 public:
  explicit ParsedFiles(const TokenizerFiles& files)
      : tokenizer_(parse_json(files.tokenizer_json, kTokenizer)),
        config_(parse_optional(files.tokenizer_config_json, kConfig)),
        special_tokens_map_(parse_optional(files.special_tokens_map_json, kSpecialTokensMap)),
        added_tokens_(parse_optional(files.added_tokens_json, kAddedTokens)) {}

  TokenizerJson views() const {
    return {JsonView(tokenizer_, kTokenizer), view(config_, kConfig),
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

  JsonValue tokenizer_;
  std::optional<JsonValue> config_;
  std::optional<JsonValue> special_tokens_map_;
  std::optional<JsonValue> added_tokens_;
};

void check_top_level(const JsonView& json) {
  // Truncation and padding are a caller's choice, not part of what tokens a text has.
  refuse_unknown_keys(json, {"version", "truncation", "padding", "added_tokens", "normalizer",
                             "pre_tokenizer", "post_processor", "decoder", "model"});
  const std::string version = json.string_or("version", "1.0");
  if (version != "1.0") {
    throw Error(ErrorCode::unsupported, "{}.version: \"{}\" is not supported", json.where(),
                printable(version));
  }
}

// A list of scores is Unigram's, a map of ids that of all others.
void require_vocabulary(const JsonView& model) {
  const JsonView vocab = model.at("vocab");
  const bool wants_list = model_type(model) == ModelType::unigram;
  if (wants_list ? vocab.is_array() : vocab.is_object()) return;
  throw Error(ErrorCode::format, "{} must be {}", vocab.where(), wants_list ? "a list" : "an object");
}

Vocabulary make_vocabulary(std::vector<Vocabulary::Entry> entries, const std::vector<AddedToken>& added,
                           const std::string& where) {
  const size_t num_model_tokens = entries.size();
  std::vector<std::string_view> known;
  known.reserve(num_model_tokens);
  for (const auto& entry : entries) known.push_back(entry.text);
  std::sort(known.begin(), known.end());
  std::vector<Vocabulary::Entry> more;
  for (const AddedToken& token : added) {
    if (!std::binary_search(known.begin(), known.end(), std::string_view(token.text))) {
      more.push_back({token.id, token.text, false});
    }
  }
  known.clear();
  entries.insert(entries.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  Vocabulary vocabulary(entries, where);
  for (const AddedToken& token : added) {
    if (token.special) vocabulary.mark_special(token.id);
  }
  return vocabulary;
}

// What is looked for in a text. Of two tokens with one normalized text the first wins.
void add_matchers(const std::vector<AddedToken>& added, TokenizerParts& parts) {
  for (const AddedToken& token : added) {
    if (token.text.empty()) continue;
    if (!token.normalized) {
      parts.raw_tokens.add(token, token.text);
    } else if (!parts.normalizer) {
      parts.normalized_tokens.add(token, token.text);
    } else {
      EncodeScratch scratch(token.text.size());
      const std::string normalized = parts.normalizer->normalize(token.text, scratch);
      parts.normalized_tokens.add(token, normalized);
      parts.vocabulary.show_as(token.id, normalized);
    }
  }
}

std::optional<TokenId> find_named(const TokenizerJson& json, std::string_view name,
                                  const Vocabulary& vocabulary) {
  const auto text = named_token(json, name);
  return text ? vocabulary.find(*text) : std::nullopt;
}

void load_text_parts(const TokenizerJson& json, TokenizerParts& parts) {
  const JsonView& file = json.tokenizer;
  const JsonView model = file.at("model");
  if (const auto normalizer = file.find("normalizer")) parts.normalizer = load_normalizer(*normalizer);
  LoadedPreTokenizer loaded;
  if (const auto pre_tokenizer = file.find("pre_tokenizer")) {
    loaded = load_pre_tokenizer(*pre_tokenizer, model_type(model) == ModelType::bpe);
  }
  parts.pre_tokenizer = std::move(loaded.pre_tokenizer);
  parts.model = load_model(model, loaded.byte_level, parts.vocabulary);
  const auto decoder = file.find("decoder");
  parts.decoder =
      decoder ? load_decoder(*decoder, parts.vocabulary) : std::make_unique<SpacedDecoder>(parts.vocabulary);
  if (const auto post = file.find("post_processor")) {
    parts.post_processor = load_post_processor(*post, parts.vocabulary);
  }
}

}  // namespace

std::unique_ptr<const TokenizerParts> load_tokenizer_parts(const TokenizerFiles& files) {
  const ParsedFiles parsed(files);
  const TokenizerJson json = parsed.views();
  check_top_level(json.tokenizer);
  const JsonView model = json.tokenizer.at("model");
  require_vocabulary(model);

  auto parts = std::make_unique<TokenizerParts>();
  std::vector<Vocabulary::Entry> entries = load_model_tokens(model.at("vocab"));
  const std::vector<AddedToken> added = load_added_tokens(json, entries);
  parts->vocabulary = make_vocabulary(std::move(entries), added, model.at("vocab").where());
  load_text_parts(json, *parts);
  add_matchers(added, *parts);
  for (size_t idx = 0; idx < parts->vocabulary.size(); ++idx) {
    const auto id = static_cast<TokenId>(idx);
    if (parts->vocabulary.contains(id) && parts->vocabulary.is_special(id)) parts->special_ids.push_back(id);
  }
  parts->bos_id = find_named(json, "bos_token", parts->vocabulary);
  parts->eos_id = find_named(json, "eos_token", parts->vocabulary);
  parts->pad_id = find_named(json, "pad_token", parts->vocabulary);
  parts->unk_id = find_named(json, "unk_token", parts->vocabulary);
  return parts;
}

}  // namespace quire
