#include "capi/hub/digest.h"

namespace quire::hub {
namespace {

uint32_t rotated_left(uint32_t word, int count) {
  return (word << count) | (word >> (32 - count));
}

}  // namespace

void Sha1::add_block(std::string_view block) {
  std::array<uint32_t, 80> words{};
  for (size_t i = 0; i < 16; ++i) {
    for (size_t byte = 0; byte < 4; ++byte)
      words[i] = words[i] << 8 | static_cast<unsigned char>(block[i * 4 + byte]);
  }
  for (size_t i = 16; i < words.size(); ++i)
    words[i] = rotated_left(words[i - 3] ^ words[i - 8] ^ words[i - 14] ^ words[i - 16], 1);
  auto [a, b, c, d, e] = state_;
  for (size_t i = 0; i < words.size(); ++i) {
    uint32_t mixed = b ^ c ^ d;
    uint32_t constant = i < 40 ? 0x6ed9eba1 : 0xca62c1d6;
    if (i < 20) {
      mixed = (b & c) | (~b & d);
      constant = 0x5a827999;
    } else if (i >= 40 && i < 60) {
      mixed = (b & c) | (b & d) | (c & d);
      constant = 0x8f1bbcdc;
    }
    const uint32_t first = rotated_left(a, 5) + mixed + e + constant + words[i];
    e = d;
    d = c;
    c = rotated_left(b, 30);
    b = a;
    a = first;
  }
  state_ = {state_[0] + a, state_[1] + b, state_[2] + c, state_[3] + d, state_[4] + e};
}

void Sha1::add(std::string_view bytes) {
  blocks_.add(bytes, [this](std::string_view block) { add_block(block); });
}

std::string Sha1::finish() {
  blocks_.finish([this](std::string_view block) { add_block(block); });
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const uint32_t word : state_) {
    for (int shift = 28; shift >= 0; shift -= 4) hex.push_back(kDigits[word >> shift & 15U]);
  }
  return hex;
}

}  // namespace quire::hub
