// SHA-256 (FIPS 180-4), to identify texts by their content; not for secrets.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace quire {

using Sha256 = std::array<uint8_t, 32>;

Sha256 sha256(std::string_view bytes) noexcept;

// Returns 64 hexadecimal digits.
std::string sha256_hex(std::string_view bytes);

}  // namespace quire
