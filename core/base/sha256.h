// SHA-256 (FIPS 180-4), to name texts by what they are; not for secrets.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace quire {

using Sha256 = std::array<uint8_t, 32>;

Sha256 sha256(std::string_view bytes) noexcept;

// 64 hexadecimal digits.
std::string sha256_hex(std::string_view bytes);

}  // namespace quire
