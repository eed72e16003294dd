// Cuts bytes that come in pieces into the blocks that SHA-1 and SHA-256 hash (FIPS 180-4, section 5).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace quire {

class DigestBlocks {
 public:
  static constexpr size_t kBlockBytes = 64;

  // Calls add_block with each block that is complete.
  template <typename AddBlock>
  void add(std::string_view bytes, const AddBlock& add_block) noexcept {
    const size_t num_rest = num_bytes_ % kBlockBytes;
    num_bytes_ += bytes.size();
    if (num_rest > 0) {
      const std::string_view taken = bytes.substr(0, kBlockBytes - num_rest);
      std::copy(taken.begin(), taken.end(), rest_.begin() + num_rest);
      if (num_rest + taken.size() < kBlockBytes) return;
      add_block(std::string_view(rest_.data(), kBlockBytes));
      bytes.remove_prefix(taken.size());
    }
    for (; bytes.size() >= kBlockBytes; bytes.remove_prefix(kBlockBytes))
      add_block(bytes.substr(0, kBlockBytes));
    std::copy(bytes.begin(), bytes.end(), rest_.begin());
  }

  // Adds what ends a text: one bit 1, zeros, and the number of bits in 8 bytes.
  template <typename AddBlock>
  void finish(const AddBlock& add_block) noexcept {
    const size_t num_rest = num_bytes_ % kBlockBytes;
    const uint64_t num_bits = num_bytes_ * 8;
    std::array<char, 2 * kBlockBytes> tail{};
    tail[0] = '\x80';
    const size_t tail_bytes = (num_rest < kBlockBytes - 8 ? kBlockBytes : 2 * kBlockBytes) - num_rest;
    for (size_t i = 0; i < 8; ++i) tail[tail_bytes - 1 - i] = static_cast<char>(num_bits >> (8 * i));
    add(std::string_view(tail.data(), tail_bytes), add_block);
  }

 private:
  std::array<char, kBlockBytes> rest_{};  // the beginning of a block
  uint64_t num_bytes_ = 0;
};

}  // namespace quire
