// Plain text: whole characters that a JSON string holds as they are. Its bytes are in classes, one bit each,
// so that one comparison tells whether any byte below a node of the vocabulary can change a state.
#pragma once

#include <array>
#include <cstdint>

namespace quire {

// Longer tokens than that count as not plain.
constexpr uint32_t kMaxPlainChars = 32;

using ByteClasses = uint32_t;

// Small letters, capitals, digits and what is not ASCII are a class each; so is every other plain character,
// but for five that share the last bit. Bytes that are not plain are in none.
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
