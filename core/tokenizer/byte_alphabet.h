// The alphabet of byte-level BPE (GPT-2): one printable code point for each of the 256 bytes, so that byte
// strings can be written as text. Printable Latin-1 characters stand for themselves; the other bytes are
// U+0100 and following, in order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace quire {

// Returns the code point of a byte; below U+0144.
uint32_t byte_to_code_point(uint8_t byte);

// Returns `bytes` written in the alphabet.
std::string to_byte_alphabet(std::string_view bytes);

// Returns the bytes that `text` (valid UTF-8) spells; nothing if it has a code point outside the alphabet.
std::optional<std::string> spelled_bytes(std::string_view text);

}  // namespace quire
