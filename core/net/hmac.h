// HMAC-SHA-256 (RFC 2104), for messages of peers that share a key.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include <gsl/gsl>

#include "core/base/sha256.h"

namespace quire {

// A key, ready to sign. Immutable.
class HmacKey {
 public:
  explicit HmacKey(std::string_view key) noexcept;
  // Returns the code of all pieces, one after another.
  Sha256 sign(std::initializer_list<std::string_view> pieces) const noexcept;

 private:
  Sha256Stream inner_, outer_;  // after the padded key
};

// Compares in a time that depends on the sizes alone.
bool equal_in_constant_time(gsl::span<const uint8_t> a, gsl::span<const uint8_t> b) noexcept;

// Returns random bytes, fit for keys. Throws ErrorCode::io if the system has none.
std::array<uint8_t, 32> random_bytes();

// Returns bytes as text for the functions of this folder.
inline std::string_view text_of(gsl::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline std::string_view text_of(gsl::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace quire
