#include "core/base/sha256.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "core/base/hex.h"

namespace quire {
namespace {

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
constexpr std::array<uint32_t, 64> kRoundConstants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

using State = std::array<uint32_t, 8>;

uint32_t rotated(uint32_t word, int count) {
  return (word >> count) | (word << (32 - count));
}

std::array<uint32_t, 64> schedule(std::string_view block) {
  std::array<uint32_t, 64> words{};
  for (size_t i = 0; i < 16; ++i) {
    for (size_t byte = 0; byte < 4; ++byte) {
      words[i] = words[i] << 8 | static_cast<unsigned char>(block[i * 4 + byte]);
    }
  }
  for (size_t i = 16; i < 64; ++i) {
    const uint32_t a = words[i - 15];
    const uint32_t b = words[i - 2];
    words[i] = words[i - 16] + (rotated(a, 7) ^ rotated(a, 18) ^ (a >> 3)) + words[i - 7] +
               (rotated(b, 17) ^ rotated(b, 19) ^ (b >> 10));
  }
  return words;
}

void add_block(State& state, std::string_view block) {
  const std::array<uint32_t, 64> words = schedule(block);
  State s = state;
  for (size_t i = 0; i < 64; ++i) {
    const uint32_t e = rotated(s[4], 6) ^ rotated(s[4], 11) ^ rotated(s[4], 25);
    const uint32_t first = s[7] + e + ((s[4] & s[5]) ^ (~s[4] & s[6])) + kRoundConstants[i] + words[i];
    const uint32_t a = rotated(s[0], 2) ^ rotated(s[0], 13) ^ rotated(s[0], 22);
    const uint32_t second = a + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
    s = {first + second, s[0], s[1], s[2], s[3] + first, s[4], s[5], s[6]};
  }
  for (size_t i = 0; i < state.size(); ++i) state[i] += s[i];
}

}  // namespace

// The fractional parts of the square roots of the first 8 primes.
Sha256Stream::Sha256Stream() noexcept
    : state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19} {
}

void Sha256Stream::add(std::string_view bytes) noexcept {
  blocks_.add(bytes, [this](std::string_view block) { add_block(state_, block); });
}

Sha256 Sha256Stream::finish() noexcept {
  blocks_.finish([this](std::string_view block) { add_block(state_, block); });
  Sha256 digest{};
  for (size_t i = 0; i < digest.size(); ++i)
    digest[i] = static_cast<uint8_t>(state_[i / 4] >> (24 - 8 * (i % 4)));
  return digest;
}

Sha256 sha256(std::string_view bytes) noexcept {
  Sha256Stream stream;
  stream.add(bytes);
  return stream.finish();
}

std::string sha256_hex(std::string_view bytes) {
  return to_hex(sha256(bytes));
}

}  // namespace quire
