#include "kernels/cuda/plan/block_tiles.h"

#include <algorithm>
#include <cmath>

namespace quire::kernels {
namespace {

// Returns the exponent of the smallest power of two that is larger than `value`.
int exponent_above(float value) {
  int exponent = 0;
  std::frexp(value, &exponent);
  return exponent;
}

constexpr int kFieldExponent = 24, kMinExponent = 8, kLargestExponent = 15;
constexpr int kLeast = -126, kMost = 127;  // of a float

}  // namespace

float block_unit(BlockType type, const BlockMaxima& maxima) {
  const BlockForm& form = kBlockForms[static_cast<size_t>(type)];
  if (form.terms == BlockTerms::e4m3) return form.factor * kBlockFieldUnit * 256.0f / kBlockE4m3Factor;
  int exponent = kLeast;
  if (maxima.scale > 0.0f)
    exponent = std::max(exponent, exponent_above(maxima.scale) + kFieldExponent - kLargestExponent);
  if (maxima.min > 0.0f)
    exponent = std::max(exponent, exponent_above(maxima.min) + kMinExponent - kLargestExponent);
  return maxima.scale > 0.0f || maxima.min > 0.0f ? std::ldexp(1.0f, std::min(exponent, kMost)) : 1.0f;
}

}  // namespace quire::kernels
