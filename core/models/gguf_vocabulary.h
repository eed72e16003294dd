// The tokens of a GGUF file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/loader/gguf_metadata.h"

namespace quire {

enum class GgufTokenType : int32_t {
  normal = 1,
  unknown = 2,
  control = 3,
  user_defined = 4,
  unused = 5,
  byte = 6
};

// Texts, scores and types of tokens; borrows the metadata.
class GgufVocabulary {
 public:
  // Throws ErrorCode::format that names the key if the lists are malformed.
  explicit GgufVocabulary(const GgufMetadata& metadata);

  const GgufMetadata& metadata() const { return metadata_; }
  uint64_t size() const { return tokens_->size(); }
  std::string_view text(uint64_t id) const { return *tokens_->text(id); }
  GgufTokenType type(uint64_t id) const;
  float score(uint64_t id) const;  // 0 if the file has none

  // Returns the token that a key "tokenizer.ggml.NAME_token_id" names, or `fallback`; nothing if there is
  // none.
  std::optional<uint64_t> named(std::string_view name, std::optional<uint64_t> fallback = std::nullopt) const;

 private:
  const GgufMetadata& metadata_;
  const GgufValue* tokens_ = nullptr;
  const GgufValue* types_ = nullptr;   // may be nullptr
  const GgufValue* scores_ = nullptr;  // may be nullptr
};

}  // namespace quire
