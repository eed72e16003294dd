#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/tokenizer/component_json.h"
#include "core/tokenizer/component_loader.h"

namespace quire {
namespace {

TokenIds load_special_token_ids(const JsonView& special_tokens, const JsonView& piece,
                                const Vocabulary& vocabulary) {
  const JsonView name = piece.at("id");
  const JsonView token = special_tokens.at(name.as_string());
  TokenIds ids;
  for (const JsonView& item : token.at("ids").items()) {
    const auto id = static_cast<TokenId>(item.as_int(0, INT32_MAX));
    if (!vocabulary.contains(id))
      throw Error(ErrorCode::format, "{}: there is no token {}", item.where(), id);
    ids.push_back(id);
  }
  return ids;
}

PostProcessor load_template(const JsonView& json, const Vocabulary& vocabulary) {
  refuse_unknown_keys(json, {"type", "single", "pair", "special_tokens"});
  std::vector<PostProcessor::Piece> pieces;
  bool has_text = false;
  for (const JsonView& item : json.at("single").items()) {
    refuse_unknown_keys(item, {"SpecialToken", "Sequence"});
    if (const auto special = item.find("SpecialToken")) {
      pieces.push_back({false, load_special_token_ids(json.at("special_tokens"), *special, vocabulary)});
      continue;
    }
    const JsonView sequence = item.at("Sequence").at("id");
    if (sequence.as_string() != "A") throw Error(ErrorCode::format, "{} must be \"A\"", sequence.where());
    if (has_text)
      throw Error(ErrorCode::unsupported, "{}: a template with the text more than once is not supported",
                  json.at("single").where());
    pieces.push_back({true, {}});
    has_text = true;
  }
  if (!has_text) throw Error(ErrorCode::format, "{}.single has no \"Sequence\"", json.where());
  return PostProcessor(std::move(pieces));
}

// Loads ["[SEP]", 102].
PostProcessor::Piece load_pair(const JsonView& json, const Vocabulary& vocabulary) {
  const std::vector<JsonView> items = json.items();
  if (items.size() != 2) throw Error(ErrorCode::format, "{} must be a token and its id", json.where());
  const auto id = static_cast<TokenId>(items[1].as_int(0, INT32_MAX));
  if (!vocabulary.contains(id))
    throw Error(ErrorCode::format, "{}: there is no token {}", items[1].where(), id);
  return {false, {id}};
}

PostProcessor load_cls_and_sep(const JsonView& json, const Vocabulary& vocabulary) {
  refuse_unknown_keys(json, {"type", "sep", "cls", "trim_offsets", "add_prefix_space"});
  return PostProcessor(
      {load_pair(json.at("cls"), vocabulary), {true, {}}, load_pair(json.at("sep"), vocabulary)});
}

}  // namespace

PostProcessor load_post_processor(const JsonView& json, const Vocabulary& vocabulary) {
  PostProcessor post_processor;
  for (const JsonView& step : flatten(json, "processors")) {
    const std::string type = type_of(step);
    if (type == "ByteLevel") {
      // Affects only offsets.
      refuse_unknown_keys(step, {"type", "add_prefix_space", "trim_offsets", "use_regex"});
    } else if (type == "TemplateProcessing") {
      post_processor = load_template(step, vocabulary).around(post_processor);
    } else if (type == "BertProcessing" || type == "RobertaProcessing") {
      post_processor = load_cls_and_sep(step, vocabulary).around(post_processor);
    } else {
      refuse_type(step);
    }
  }
  return post_processor;
}

}  // namespace quire
