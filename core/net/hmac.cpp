#include "core/net/hmac.h"

#include <algorithm>
#include <unistd.h>

#include "core/base/digest_blocks.h"
#include "core/base/error.h"

namespace quire {
namespace {

using Block = std::array<char, DigestBlocks::kBlockBytes>;

Sha256Stream begin_with(Block key, uint8_t pad) noexcept {
  for (char& byte : key) byte = static_cast<char>(static_cast<uint8_t>(byte) ^ pad);
  Sha256Stream stream;
  stream.add({key.data(), key.size()});
  return stream;
}

// Returns the key with zeros after it. A longer key counts by its digest.
Block padded(std::string_view key) noexcept {
  Block block{};
  const Sha256 digest = sha256(key);
  if (key.size() > block.size()) key = text_of(gsl::span<const uint8_t>(digest));
  std::copy(key.begin(), key.end(), block.begin());
  return block;
}

}  // namespace

HmacKey::HmacKey(std::string_view key) noexcept
    : inner_(begin_with(padded(key), 0x36)), outer_(begin_with(padded(key), 0x5c)) {}

Sha256 HmacKey::sign(std::initializer_list<std::string_view> pieces) const noexcept {
  Sha256Stream inner = inner_;
  for (const std::string_view piece : pieces) inner.add(piece);
  const Sha256 digest = inner.finish();
  Sha256Stream outer = outer_;
  outer.add(text_of(gsl::span<const uint8_t>(digest)));
  return outer.finish();
}

bool equal_in_constant_time(gsl::span<const uint8_t> a, gsl::span<const uint8_t> b) noexcept {
  if (a.size() != b.size()) return false;
  uint8_t difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference |= static_cast<uint8_t>(a[i] ^ b[i]);
  return difference == 0;
}

std::array<uint8_t, 32> random_bytes() {
  std::array<uint8_t, 32> bytes{};
  if (::getentropy(bytes.data(), bytes.size()) == 0) return bytes;
  throw Error(ErrorCode::io, "the system gives no random bytes (getentropy); its kernel is too old");
}

}  // namespace quire
