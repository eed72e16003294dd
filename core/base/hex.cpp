#include "core/base/hex.h"

#include <fmt/format.h>

namespace quire {

std::string to_hex(gsl::span<const uint8_t> bytes) {
  std::string hex;
  hex.reserve(2 * bytes.size());
  for (const uint8_t byte : bytes) fmt::format_to(std::back_inserter(hex), "{:02x}", byte);
  return hex;
}

}  // namespace quire
