// SHA-256 (FIPS 180-4), to identify texts by their content; not for secrets.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/digest_blocks.h"

namespace quire {

using Sha256 = std::array<uint8_t, 32>;

Sha256 sha256(std::string_view bytes) noexcept;

// Digest of bytes that come in pieces.
class Sha256Stream {
 public:
  Sha256Stream() noexcept;
  void add(std::string_view bytes) noexcept;
  // Returns the digest. Nothing may be added afterwards.
  Sha256 finish() noexcept;

 private:
  std::array<uint32_t, 8> state_;
  DigestBlocks blocks_;
};

// Returns 64 hexadecimal digits.
std::string sha256_hex(std::string_view bytes);

}  // namespace quire
