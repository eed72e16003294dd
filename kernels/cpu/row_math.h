// Helpers of the plain loops over rows.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace quire::kernels::cpu_entries {

inline size_t size(int32_t count) {
  return static_cast<size_t>(count);
}

inline float sigmoid(float x) {
  return 1.0f / (1.0f + std::exp(-x));
}

}  // namespace quire::kernels::cpu_entries
