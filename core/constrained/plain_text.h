// Plain text: whole characters that a JSON string can contain unescaped. Its bytes are divided into classes,
// one bit each, so that a single comparison shows whether any byte below a trie node can change a state.
#pragma once

#include <array>
#include <cstdint>

namespace quire {

// Tokens with more characters do not count as plain.
constexpr uint32_t kMaxPlainChars = 32;

using ByteClasses = uint32_t;

// Lower-case letters, upper-case letters, digits and non-ASCII bytes are one class each. Every other plain
// character is its own class, except for five that share the last bit. Bytes that are not plain have no
// class.
constexpr std::array<ByteClasses, 256> make_byte_classes() {
  std::array<ByteClasses, 256> classes{};
  ByteClasses next = 1U << 4;
  for (uint32_t byte = 0x20; byte < classes.size(); ++byte) {
    const bool is_rare = byte == '^' || byte == '`' || byte == '|' || byte == '~' || byte == 0x7F;
    if (byte == '"' || byte == '\\') continue;
    if (byte >= 0x80) {
      classes[byte] = 1U << 3;
    } else if (byte >= '0' && byte <= '9') {
      classes[byte] = 1U << 2;
    } else if (byte >= 'A' && byte <= 'Z') {
      classes[byte] = 1U << 1;
    } else if (byte >= 'a' && byte <= 'z') {
      classes[byte] = 1U << 0;
    } else if (is_rare) {
      classes[byte] = 1U << 31;
    } else {
      classes[byte] = next;
      next <<= 1;
    }
  }
  return classes;
}

inline constexpr std::array<ByteClasses, 256> kByteClasses = make_byte_classes();
constexpr ByteClasses kAllBytes = UINT32_MAX;

}  // namespace quire
