#include "core/models/gguf_vocabulary.h"

#include <cmath>

#include "core/base/error.h"
#include "core/base/utf8.h"

namespace quire {
namespace {

constexpr std::string_view kTokens = "tokenizer.ggml.tokens";
constexpr std::string_view kTypes = "tokenizer.ggml.token_type";
constexpr std::string_view kScores = "tokenizer.ggml.scores";
constexpr uint64_t kMaxTokens = uint64_t{1} << 22;

void require_length(const GgufMetadata& metadata, std::string_view key, const GgufValue* list,
                    uint64_t size) {
  if (list == nullptr || list->size() >= size) return;
  throw Error(ErrorCode::format, "{}: \"{}\" has {} entries for {} tokens", metadata.source(), key,
              list->size(), size);
}

}  // namespace

GgufVocabulary::GgufVocabulary(const GgufMetadata& metadata)
    : metadata_(metadata),
      tokens_(metadata.array(kTokens, true)),
      types_(metadata.array(kTypes, false)),
      scores_(metadata.array(kScores, false)) {
  if (tokens_ == nullptr || tokens_->size() == 0)
    throw Error(ErrorCode::not_found, "{}: has no tokenizer: \"{}\" is missing", metadata.source(), kTokens);
  if (tokens_->size() > kMaxTokens)
    throw Error(ErrorCode::format, "{}: \"{}\" has {} tokens, more than the limit of {}", metadata.source(),
                kTokens, tokens_->size(), kMaxTokens);
  require_length(metadata, kTypes, types_, size());
  require_length(metadata, kScores, scores_, size());
  for (uint64_t id = 0; id < size(); ++id) {
    if (find_invalid_utf8(text(id)) != text(id).size())
      throw Error(ErrorCode::format, "{}: token {} of \"{}\" is not UTF-8", metadata.source(), id, kTokens);
    if (types_ != nullptr && !types_->integer(id))
      throw Error(ErrorCode::format, "{}: \"{}\" is not a list of whole numbers", metadata.source(), kTypes);
    if (scores_ != nullptr && !std::isfinite(scores_->number(id).value_or(NAN)))
      throw Error(ErrorCode::format, "{}: entry {} of \"{}\" is not a finite number", metadata.source(), id,
                  kScores);
  }
}

GgufTokenType GgufVocabulary::type(uint64_t id) const {
  if (types_ == nullptr) return GgufTokenType::normal;
  const int64_t type = *types_->integer(id);
  return type >= 1 && type <= 6 ? static_cast<GgufTokenType>(type) : GgufTokenType::normal;
}

float GgufVocabulary::score(uint64_t id) const {
  return scores_ == nullptr ? 0.0f : static_cast<float>(*scores_->number(id));
}

std::optional<uint64_t> GgufVocabulary::named(std::string_view name, std::optional<uint64_t> fallback) const {
  const auto stored = metadata_.integer(fmt::format("tokenizer.ggml.{}_token_id", name));
  if (!stored) return fallback && *fallback < size() ? fallback : std::nullopt;
  if (*stored < 0 || static_cast<uint64_t>(*stored) >= size()) return std::nullopt;
  return static_cast<uint64_t>(*stored);
}

}  // namespace quire
