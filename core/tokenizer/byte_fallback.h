// The tokens "<0x00>" to "<0xFF>", which stand for the bytes of characters that have no token of their own.
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
  // No byte has a token.
  ByteFallback() { tokens_.fill(-1); }
  explicit ByteFallback(const Vocabulary& vocabulary);

  // Appends a token for each byte. False, and nothing appended, where one of them has none.
  bool append(std::string_view bytes, TokenIds& ids) const;

 private:
  std::array<TokenId, 256> tokens_;
};

// The byte that a token of this spelling stands for.
std::optional<uint8_t> fallback_byte(std::string_view token);

}  // namespace quire
