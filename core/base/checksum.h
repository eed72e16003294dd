// A fast checksum for files. It detects every change within one 8-byte word. It is not cryptographic.
#pragma once

#include <cstddef>
#include <cstdint>

#include <gsl/gsl>

namespace quire {

// Returns the checksum of `bytes`, continuing from `before`, the checksum of the bytes before them. Each step
// is invertible, so two texts that differ in a single word never have the same checksum.
uint64_t checksum(uint64_t before, gsl::span<const std::byte> bytes) noexcept;

}  // namespace quire
