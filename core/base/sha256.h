// SHA-256 (FIPS 180-4), to name texts by what they are; not for secrets.
#pragma once

#include <string>
#include <string_view>

namespace quire {

// 64 hexadecimal digits.
std::string sha256_hex(std::string_view bytes);

}  // namespace quire
