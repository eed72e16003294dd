#include "core/tokenizer/component_loader.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace quire {
namespace {

constexpr size_t kMaxSteps = 16;  // of a Sequence: each piece passes through all of them

std::string type_of(const JsonView& json) {
  return json.at("type").as_string();
}

[[noreturn]] void refuse_type(const JsonView& json) {
  throw Error(ErrorCode::unsupported, "{}.type: \"{}\" is not supported", json.where(),
              printable(type_of(json)));
}

// The elements of nested Sequences, in order. `key` names the list in each Sequence.
std::vector<JsonView> flatten(const JsonView& json, std::string_view key) {
  if (type_of(json) != "Sequence") return {json};
  refuse_unknown_keys(json, {"type", key});
  std::vector<JsonView> steps;
  for (const JsonView& item : json.at(key).items()) {  // nesting is bounded by the depth of the JSON
    for (const JsonView& step : flatten(item, key)) steps.push_back(step);
    if (steps.size() > kMaxSteps) {
      throw Error(ErrorCode::unsupported, "{}: more than {} steps", json.where(), kMaxSteps);
    }
  }
  return steps;
}

std::string escape_regex(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    const bool plain =
        static_cast<unsigned char>(c) >= 0x80 || std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (!plain) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

// {"String": ...} or {"Regex": ...}
Regex load_pattern(const JsonView& json) {
  refuse_unknown_keys(json, {"String", "Regex"});
  if (const auto regex = json.find("Regex")) return Regex(regex->as_string(), regex->where());
  const JsonView literal = json.at("String");
  const std::string& text = literal.as_string();
  if (text.empty())
    throw Error(ErrorCode::unsupported, "{}: an empty pattern is not supported", literal.where());
  return Regex(escape_regex(text), literal.where());
}

std::unique_ptr<Normalizer> load_normalizer_step(const JsonView& json) {
  const std::string type = type_of(json);
  using Form = UnicodeNormalizer::Form;
  if (type == "Prepend") {
    refuse_unknown_keys(json, {"type", "prepend"});
    return std::make_unique<PrependNormalizer>(json.at("prepend").as_string());
  }
  if (type == "Strip") {
    refuse_unknown_keys(json, {"type", "strip_left", "strip_right"});
    return std::make_unique<StripNormalizer>(json.at("strip_left").as_bool(),
                                             json.at("strip_right").as_bool());
  }
  if (type == "Replace") {
    refuse_unknown_keys(json, {"type", "pattern", "content"});
    return std::make_unique<ReplaceNormalizer>(load_pattern(json.at("pattern")),
                                               json.at("content").as_string());
  }
  refuse_unknown_keys(json, {"type"});
  if (type == "NFC") return std::make_unique<UnicodeNormalizer>(Form::nfc);
  if (type == "NFD") return std::make_unique<UnicodeNormalizer>(Form::nfd);
  if (type == "NFKC") return std::make_unique<UnicodeNormalizer>(Form::nfkc);
  if (type == "NFKD") return std::make_unique<UnicodeNormalizer>(Form::nfkd);
  if (type == "Lowercase") return std::make_unique<LowercaseNormalizer>();
  refuse_type(json);
}

SplitBehavior load_behavior(const JsonView& json) {
  const std::string& name = json.as_string();
  if (name == "Isolated") return SplitBehavior::isolated;
  if (name == "Removed") return SplitBehavior::removed;
  if (name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
  if (name == "MergedWithNext") return SplitBehavior::merged_with_next;
  if (name == "Contiguous") return SplitBehavior::contiguous;
  throw Error(ErrorCode::unsupported, "{}: \"{}\" is not supported", json.where(), printable(name));
}

using PreTokenizers = std::vector<std::unique_ptr<PreTokenizer>>;

void load_byte_level(const JsonView& json, PreTokenizers& steps) {
  refuse_unknown_keys(json, {"type", "add_prefix_space", "trim_offsets", "use_regex"});
  if (json.bool_or("add_prefix_space", true)) steps.push_back(std::make_unique<PrefixSpacePreTokenizer>());
  if (json.bool_or("use_regex", true)) {
    steps.push_back(std::make_unique<SplitPreTokenizer>(Regex(byte_level_pattern(), json.where()),
                                                        SplitBehavior::isolated, false));
  }
}

void load_pre_tokenizer_step(const JsonView& json, PreTokenizers& steps) {
  const std::string type = type_of(json);
  if (type == "Split") {
    refuse_unknown_keys(json, {"type", "pattern", "behavior", "invert"});
    steps.push_back(std::make_unique<SplitPreTokenizer>(
        load_pattern(json.at("pattern")), load_behavior(json.at("behavior")), json.bool_or("invert", false)));
  } else if (type == "Digits") {
    refuse_unknown_keys(json, {"type", "individual_digits"});
    const bool individual = json.bool_or("individual_digits", false);
    steps.push_back(std::make_unique<SplitPreTokenizer>(
        Regex(digit_pattern(), json.where()),
        individual ? SplitBehavior::isolated : SplitBehavior::contiguous, false));
  } else {
    refuse_type(json);
  }
}

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
      throw Error(ErrorCode::unsupported, "{}: the text more than once", json.at("single").where());
    pieces.push_back({true, {}});
    has_text = true;
  }
  if (!has_text) throw Error(ErrorCode::format, "{}.single has no \"Sequence\"", json.where());
  return PostProcessor(std::move(pieces));
}

}  // namespace

void refuse_unknown_keys(const JsonView& object, std::initializer_list<std::string_view> known) {
  for (const JsonMember& member : object.members()) {
    if (std::find(known.begin(), known.end(), member.key) == known.end()) {
      throw Error(ErrorCode::unsupported, "{}.{} is not a field this build knows", object.where(),
                  printable(member.key));
    }
  }
}

std::unique_ptr<Normalizer> load_normalizer(const JsonView& json) {
  std::vector<std::unique_ptr<Normalizer>> steps;
  for (const JsonView& step : flatten(json, "normalizers")) steps.push_back(load_normalizer_step(step));
  return std::make_unique<NormalizerSequence>(std::move(steps));
}

LoadedPreTokenizer load_pre_tokenizer(const JsonView& json) {
  PreTokenizers steps;
  bool byte_level = false;
  for (const JsonView& step : flatten(json, "pretokenizers")) {
    if (byte_level)
      throw Error(ErrorCode::unsupported, "{}: a step after ByteLevel is not supported", step.where());
    byte_level = type_of(step) == "ByteLevel";
    if (byte_level) {
      load_byte_level(step, steps);
    } else {
      load_pre_tokenizer_step(step, steps);
    }
  }
  if (steps.empty()) return {nullptr, byte_level};
  if (steps.size() == 1) return {std::move(steps[0]), byte_level};
  return {std::make_unique<PreTokenizerSequence>(std::move(steps)), byte_level};
}

std::unique_ptr<Decoder> load_decoder(const JsonView& json, const Vocabulary& vocabulary) {
  bool byte_level = false;
  for (const JsonView& step : flatten(json, "decoders")) {
    const std::string type = type_of(step);
    if (type == "ByteLevel" && !byte_level) {
      refuse_unknown_keys(step, {"type", "add_prefix_space", "trim_offsets", "use_regex"});
      byte_level = true;
    } else if (type == "Fuse" && byte_level) {
      refuse_unknown_keys(step, {"type"});  // ByteLevel leaves one string, there is nothing to fuse
    } else {
      refuse_type(step);
    }
  }
  if (!byte_level) throw Error(ErrorCode::unsupported, "{}: no ByteLevel in the sequence", json.where());
  return std::make_unique<ByteLevelDecoder>(vocabulary);
}

PostProcessor load_post_processor(const JsonView& json, const Vocabulary& vocabulary) {
  PostProcessor post_processor;
  bool has_template = false;
  for (const JsonView& step : flatten(json, "processors")) {
    const std::string type = type_of(step);
    if (type == "ByteLevel") {
      refuse_unknown_keys(step,
                          {"type", "add_prefix_space", "trim_offsets", "use_regex"});  // moves offsets only
    } else if (type == "TemplateProcessing" && !has_template) {
      post_processor = load_template(step, vocabulary);
      has_template = true;
    } else {
      refuse_type(step);
    }
  }
  return post_processor;
}

}  // namespace quire
