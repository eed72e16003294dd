// Letters and digits of ASCII, whatever the locale of the process is.
#pragma once

#include <string>
#include <string_view>

namespace quire {

constexpr bool is_ascii_digit(char byte) {
  return byte >= '0' && byte <= '9';
}

constexpr bool is_ascii_letter(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
}

constexpr bool is_ascii_letter_or_digit(char byte) {
  return is_ascii_letter(byte) || is_ascii_digit(byte);
}

constexpr char ascii_lower(char byte) {
  return byte >= 'A' && byte <= 'Z' ? static_cast<char>(byte - 'A' + 'a') : byte;
}

// Returns the text with lower-case letters instead of capitals.
inline std::string ascii_lower(std::string_view text) {
  std::string lower(text);
  for (char& byte : lower) byte = ascii_lower(byte);
  return lower;
}

}  // namespace quire
