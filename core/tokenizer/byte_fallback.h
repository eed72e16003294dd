// Byte fallback: the tokens "<0x00>" to "<0xFF>" encode characters that have no token.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/base/ids.h"
#include "core/tokenizer/vocabulary.h"

namespace quire {

class ByteFallback {
 public:
  // Makes a table without tokens.
  ByteFallback() { tokens_.fill(-1); }
  explicit ByteFallback(const Vocabulary& vocabulary);

  // Appends a token for each byte. If a byte has no token, appends nothing and returns false.
  bool append(std::string_view bytes, TokenIds& ids) const;

 private:
  std::array<TokenId, 256> tokens_;
};

// Returns the byte of a token with this spelling.
std::optional<uint8_t> fallback_byte(std::string_view token);

}  // namespace quire
