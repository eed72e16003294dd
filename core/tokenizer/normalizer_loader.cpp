#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/tokenizer/component_json.h"
#include "core/tokenizer/component_loader.h"

namespace quire {
namespace {

constexpr size_t kMaxPrefixBytes = 512;  // the prefix is added to every text between two added tokens

std::unique_ptr<Normalizer> load_replace(const JsonView& json) {
  refuse_unknown_keys(json, {"type", "pattern", "content"});
  const JsonView pattern = json.at("pattern");
  const std::string& content = json.at("content").as_string();
  if (auto literal = literal_pattern(pattern)) {
    return std::make_unique<LiteralReplaceNormalizer>(std::move(*literal), content);
  }
  return std::make_unique<ReplaceNormalizer>(load_regex(pattern), content);
}

std::unique_ptr<Normalizer> load_bert(const JsonView& json) {
  refuse_unknown_keys(json, {"type", "clean_text", "handle_chinese_chars", "strip_accents", "lowercase"});
  BertNormalizer::Options options;
  options.clean_text = json.bool_or("clean_text", true);
  options.handle_chinese_chars = json.bool_or("handle_chinese_chars", true);
  options.lowercase = json.bool_or("lowercase", true);
  options.strip_accents = json.bool_or("strip_accents", options.lowercase);
  return std::make_unique<BertNormalizer>(options);
}

std::unique_ptr<Normalizer> load_precompiled(const JsonView& json) {
  refuse_unknown_keys(json, {"type", "precompiled_charsmap"});
  const auto map = json.find("precompiled_charsmap");
  if (!map) return std::make_unique<PrecompiledNormalizer>(Charsmap());
  return std::make_unique<PrecompiledNormalizer>(
      Charsmap(decode_base64(map->as_string(), map->where()), map->where()));
}

// Loads normalizers that have no options.
std::unique_ptr<Normalizer> load_plain(const JsonView& json) {
  const std::string type = type_of(json);
  using Form = UnicodeNormalizer::Form;
  std::unique_ptr<Normalizer> normalizer;
  if (type == "NFC") normalizer = std::make_unique<UnicodeNormalizer>(Form::nfc);
  if (type == "NFD") normalizer = std::make_unique<UnicodeNormalizer>(Form::nfd);
  if (type == "NFKC") normalizer = std::make_unique<UnicodeNormalizer>(Form::nfkc);
  if (type == "NFKD") normalizer = std::make_unique<UnicodeNormalizer>(Form::nfkd);
  if (type == "Lowercase") normalizer = std::make_unique<LowercaseNormalizer>();
  if (type == "StripAccents") normalizer = std::make_unique<StripAccentsNormalizer>();
  if (type == "Nmt") normalizer = std::make_unique<NmtNormalizer>();
  if (type == "ByteLevel") normalizer = std::make_unique<ByteAlphabetNormalizer>();
  if (!normalizer) refuse_type(json);
  refuse_unknown_keys(json, {"type"});
  return normalizer;
}

std::unique_ptr<Normalizer> load_step(const JsonView& json) {
  const std::string type = type_of(json);
  if (type == "Replace") return load_replace(json);
  if (type == "BertNormalizer") return load_bert(json);
  if (type == "Precompiled") return load_precompiled(json);
  if (type == "Prepend") {
    refuse_unknown_keys(json, {"type", "prepend"});
    const JsonView prefix = json.at("prepend");
    if (prefix.as_string().size() > kMaxPrefixBytes) {
      throw Error(ErrorCode::unsupported, "{}: {} bytes, more than {}", prefix.where(),
                  prefix.as_string().size(), kMaxPrefixBytes);
    }
    return std::make_unique<PrependNormalizer>(prefix.as_string());
  }
  if (type == "Strip") {
    refuse_unknown_keys(json, {"type", "strip_left", "strip_right"});
    return std::make_unique<StripNormalizer>(json.at("strip_left").as_bool(),
                                             json.at("strip_right").as_bool());
  }
  return load_plain(json);
}

}  // namespace

std::unique_ptr<Normalizer> load_normalizer(const JsonView& json) {
  std::vector<std::unique_ptr<Normalizer>> steps;
  for (const JsonView& step : flatten(json, "normalizers")) steps.push_back(load_step(step));
  return std::make_unique<NormalizerSequence>(std::move(steps));
}

}  // namespace quire
