#include "core/base/checksum.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace quire {

uint64_t checksum(uint64_t before, gsl::span<const std::byte> bytes) noexcept {
  constexpr uint64_t kFactor = 0x9e3779b97f4a7c15U;  // odd, so the multiplication is invertible
  uint64_t sum = before ^ (uint64_t{bytes.size()} * kFactor);
  for (size_t done = 0; done < bytes.size(); done += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + done, std::min(sizeof word, bytes.size() - done));
    sum = std::rotl((sum ^ word) * kFactor, 29);
  }
  return sum ^ sum >> 32;
}

}  // namespace quire
