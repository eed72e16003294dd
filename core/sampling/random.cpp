#include "core/sampling/random.h"

namespace quire {
namespace {

constexpr uint32_t kMultiplier0 = 0xD2511F53U;
constexpr uint32_t kMultiplier1 = 0xCD9E8D57U;
constexpr uint32_t kWeyl0 = 0x9E3779B9U;  // golden ratio
constexpr uint32_t kWeyl1 = 0xBB67AE85U;  // sqrt(3) - 1
constexpr int kNumRounds = 10;

constexpr uint32_t low(uint64_t value) {
  return static_cast<uint32_t>(value);
}
constexpr uint32_t high(uint64_t value) {
  return static_cast<uint32_t>(value >> 32);
}

}  // namespace

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < kNumRounds; ++round) {
    const uint64_t product0 = uint64_t{kMultiplier0} * counter[0];
    const uint64_t product1 = uint64_t{kMultiplier1} * counter[2];
    counter = {high(product1) ^ counter[1] ^ key[0], low(product1), high(product0) ^ counter[3] ^ key[1],
               low(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

uint64_t random_bits(uint64_t seed, uint64_t position, RandomPurpose purpose) {
  const auto bits =
      philox4x32({low(position), high(position), static_cast<uint32_t>(purpose), 0}, {low(seed), high(seed)});
  return uint64_t{bits[1]} << 32 | bits[0];
}

}  // namespace quire
