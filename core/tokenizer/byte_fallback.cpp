#include "core/tokenizer/byte_fallback.h"

#include <charconv>

#include <fmt/core.h>

namespace quire {

ByteFallback::ByteFallback(const Vocabulary& vocabulary) {
  for (size_t byte = 0; byte < tokens_.size(); ++byte) {
    const auto id = vocabulary.find(fmt::format("<0x{:02X}>", byte));
    tokens_[byte] = id && vocabulary.in_model(*id) ? *id : -1;
  }
}

bool ByteFallback::append(std::string_view bytes, TokenIds& ids) const {
  const size_t num_before = ids.size();
  for (const char byte : bytes) {
    const TokenId token = tokens_[static_cast<unsigned char>(byte)];
    if (token < 0) {
      ids.resize(num_before);
      return false;
    }
    ids.push_back(token);
  }
  return true;
}

std::optional<uint8_t> fallback_byte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
  uint8_t byte = 0;
  const char* const end = token.data() + 5;
  const auto [stop, error] = std::from_chars(token.data() + 3, end, byte, 16);
  if (error != std::errc() || stop != end) return std::nullopt;
  return byte;
}

}  // namespace quire
