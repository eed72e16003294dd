// Digests by which a hub names the content of its files.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/digest_blocks.h"

namespace quire::hub {

// SHA-1 (FIPS 180-4), which git uses to name files. It finds damage and not attacks; weight files have
// SHA-256.
class Sha1 {
 public:
  void add(std::string_view bytes);
  // Returns 40 hexadecimal digits. Nothing may be added afterwards.
  std::string finish();

 private:
  void add_block(std::string_view block);

  std::array<uint32_t, 5> state_ = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
  DigestBlocks blocks_;
};

}  // namespace quire::hub
