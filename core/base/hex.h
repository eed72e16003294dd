// Hexadecimal digits.
#pragma once

#include <cstdint>
#include <string>

#include <gsl/gsl>

namespace quire {

// Returns the value of a hexadecimal digit, or -1 if `symbol` is not one.
constexpr int hex_digit(char symbol) {
  if (symbol >= '0' && symbol <= '9') return symbol - '0';
  const char lower = static_cast<char>(symbol | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// Returns two lower-case digits for each byte.
std::string to_hex(gsl::span<const uint8_t> bytes);

}  // namespace quire
