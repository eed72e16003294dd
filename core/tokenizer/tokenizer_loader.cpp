#include "core/base/error.h"
#include "core/base/json.h"
#include "core/tokenizer/component_json.h"
#include "core/tokenizer/component_loader.h"
#include "core/tokenizer/model_loader.h"
#include "core/tokenizer/tokenizer_assembly.h"
#include "core/tokenizer/tokenizer_parts.h"
#include "core/tokenizer/vocabulary_loader.h"

namespace quire {
namespace {

void check_top_level(const JsonView& json) {
  // Truncation and padding are the caller's choice and do not affect the tokens of a text.
  refuse_unknown_keys(json, {"version", "truncation", "padding", "added_tokens", "normalizer",
                             "pre_tokenizer", "post_processor", "decoder", "model"});
  const std::string version = json.string_or("version", "1.0");
  if (version != "1.0") {
    throw Error(ErrorCode::unsupported, "{}.version: \"{}\" is not supported", json.where(),
                printable(version));
  }
}

// Checks the form of the vocabulary: unigram has a list with scores, the other models have a map to ids.
void require_vocabulary(const JsonView& model) {
  const JsonView vocab = model.at("vocab");
  const bool wants_list = model_type(model) == ModelType::unigram;
  if (wants_list ? vocab.is_array() : vocab.is_object()) return;
  throw Error(ErrorCode::format, "{} must be {}", vocab.where(), wants_list ? "a list" : "an object");
}

void load_text_parts(const TokenizerJson& json, TokenizerParts& parts) {
  const JsonView& file = *json.tokenizer;
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

std::unique_ptr<const TokenizerParts> load_tokenizer_json(const TokenizerFiles& files) {
  const ParsedTokenizerFiles parsed(files);
  const TokenizerJson json = parsed.views();
  check_top_level(*json.tokenizer);
  const JsonView model = json.tokenizer->at("model");
  require_vocabulary(model);

  auto parts = std::make_unique<TokenizerParts>();
  std::vector<Vocabulary::Entry> entries = load_model_tokens(model.at("vocab"));
  const std::vector<AddedToken> added = load_added_tokens(json, entries);
  parts->vocabulary = make_vocabulary(std::move(entries), added, model.at("vocab").where());
  load_text_parts(json, *parts);
  finish_parts(json, added, *parts);
  return parts;
}

}  // namespace

std::unique_ptr<const TokenizerParts> load_tokenizer_parts(const TokenizerFiles& files) {
  if (!files.tokenizer_json.empty()) return load_tokenizer_json(files);
  if (files.model.empty()) {
    throw Error(ErrorCode::format,
                "the tokenizer is empty: give a tokenizer.json, a tokenizer.model or a tekken.json");
  }
  // A SentencePiece model begins with the tag of its first piece, a line end; neither JSON nor a Base64 line
  // of tiktoken does.
  if (files.model[0] == '{') return load_tekken_parts(files);
  return files.model[0] == '\n' ? load_sentencepiece_parts(files) : load_tiktoken_parts(files);
}

}  // namespace quire
