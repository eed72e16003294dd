#include "core/tokenizer/byte_alphabet.h"

#include <array>

#include "core/base/utf8.h"

namespace quire {
namespace {

constexpr uint32_t kAlphabetEnd = 0x144;

constexpr bool stands_for_itself(uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || (byte >= 0xae && byte <= 0xff);
}

struct Alphabet {
  std::array<uint16_t, 256> code_points{};
  std::array<int16_t, kAlphabetEnd> bytes{};
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  for (auto& byte : alphabet.bytes) byte = -1;
  uint32_t next = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const uint32_t code_point = stands_for_itself(byte) ? byte : next++;
    alphabet.code_points[byte] = static_cast<uint16_t>(code_point);
    alphabet.bytes[code_point] = static_cast<int16_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

uint32_t byte_to_code_point(uint8_t byte) {
  return kAlphabet.code_points[byte];
}

std::string to_byte_alphabet(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const char byte : bytes) append_utf8(text, byte_to_code_point(static_cast<uint8_t>(byte)));
  return text;
}

std::optional<std::string> spelled_bytes(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Char next = decode_utf8(text, pos);
    if (!next.valid || next.code_point >= kAlphabetEnd || kAlphabet.bytes[next.code_point] < 0) {
      return std::nullopt;
    }
    bytes.push_back(static_cast<char>(kAlphabet.bytes[next.code_point]));
    pos += next.length;
  }
  return bytes;
}

}  // namespace quire
