// Random numbers that are the same with every standard library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace quire::testing {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ULL + 0x632be59bd9b4e019ULL) {}
  // Returns 64 random bits (splitmix64).
  uint64_t next() {
    state_ += 0x9e3779b97f4a7c15ULL;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  uint32_t below(uint32_t bound) { return static_cast<uint32_t>((next() >> 32) * bound >> 32); }
  // Returns a number of the uniform distribution.
  float between(float low, float high) {
    return low + (high - low) * (static_cast<float>(next() >> 40) * 0x1p-24f);
  }
  // Returns the numbers 0..length-1 in random order.
  std::vector<int32_t> permutation(int32_t length) {
    std::vector<int32_t> order(static_cast<size_t>(length));
    std::iota(order.begin(), order.end(), 0);
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[below(static_cast<uint32_t>(i))]);
    return order;
  }

 private:
  uint64_t state_;
};

// Returns numbers of the uniform distribution.
inline std::vector<float> random_floats(Random& random, size_t count, float low = -1.0f, float high = 1.0f) {
  std::vector<float> values(count);
  for (float& value : values) value = random.between(low, high);
  return values;
}

}  // namespace quire::testing
