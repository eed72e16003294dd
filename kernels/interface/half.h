// Conversions between float and IEEE half, bfloat16 and 8-bit floats on bit patterns: exact, round to nearest
// even. Every faster implementation must match these.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace quire::kernels {

constexpr float half_to_float(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000U) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fU;
  const uint32_t mantissa = bits & 0x3ffU;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000U | (mantissa << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  // Subnormal: mantissa * 2^-24, exact in float.
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return sign ? -magnitude : magnitude;
}

constexpr uint16_t float_to_half(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000U);
  const uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return static_cast<uint16_t>(sign | 0x7e00U);   // NaN
  if (magnitude >= 0x477ff000U) return static_cast<uint16_t>(sign | 0x7c00U);  // >= 65520 rounds to infinity
  if (magnitude < 0x38800000U) {                                               // below 2^-14: subnormal half
    if (magnitude < 0x33000000U) return sign;                                  // below 2^-25: zero
    const uint32_t shift = 126 - (magnitude >> 23);                            // 14..24
    const uint32_t mantissa = (magnitude & 0x7fffffU) | 0x800000U;
    const uint32_t kept = mantissa >> shift;
    const uint32_t rest = mantissa & ((1U << shift) - 1);
    const uint32_t half_way = 1U << (shift - 1);
    const uint32_t up = (rest > half_way || (rest == half_way && (kept & 1U))) ? 1 : 0;
    return static_cast<uint16_t>(sign | (kept + up));
  }
  const uint32_t rounded = magnitude + 0xfffU + ((magnitude >> 13) & 1U) - (112U << 23);
  return static_cast<uint16_t>(sign | (rounded >> 13));
}

constexpr float bfloat16_to_float(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// E4M3 as in checkpoints: bias 7, no infinities, largest value 448; NaN has all magnitude bits set.
constexpr bool is_e4m3_nan(uint8_t bits) {
  return (bits & 0x7fU) == 0x7fU;
}
constexpr float e4m3_to_float(uint8_t bits) {
  if (is_e4m3_nan(bits)) return std::numeric_limits<float>::quiet_NaN();
  // Put exponent and mantissa where a half has them; the bias of a half is larger by 8.
  const auto half = static_cast<uint16_t>((bits & 0x80U) << 8 | (bits & 0x7fU) << 7);
  return half_to_float(half) * 256.0f;
}

// Converts E8M0, a power of two: 2^(bits - 127); 255 is NaN.
constexpr float e8m0_to_float(uint8_t bits) {
  if (bits == 0xff) return std::numeric_limits<float>::quiet_NaN();
  return std::bit_cast<float>(bits == 0 ? 0x00400000U : static_cast<uint32_t>(bits) << 23);
}

// Rounds a float to half and back.
constexpr float round_to_half(float value) {
  return half_to_float(float_to_half(value));
}

}  // namespace quire::kernels
