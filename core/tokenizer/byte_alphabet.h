// The alphabet of byte-level tokenizers: one printable code point for each of the 256 bytes, so that a
// vocabulary of byte strings can be written as text. Printable Latin-1 stands for itself; the others follow
// from U+0100 up, in order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace quire {

// The code point that stands for a byte; below U+0144.
uint32_t byte_to_code_point(uint8_t byte);

// `bytes` written in the alphabet.
std::string to_byte_alphabet(std::string_view bytes);

// The bytes that `text` (valid UTF-8) spells, or nothing where it has a code point outside of the alphabet.
std::optional<std::string> spelled_bytes(std::string_view text);

}  // namespace quire
