// A checksum for files: quick, and sure to notice a change within any eight bytes. Not against forgers.
#pragma once

#include <cstddef>
#include <cstdint>

#include <gsl/gsl>

namespace quire {

// Of `bytes` after what `before` stands for. Each word goes in by steps that can be undone, so that two texts
// that differ in one word alone never have the same sum.
uint64_t checksum(uint64_t before, gsl::span<const std::byte> bytes) noexcept;

}  // namespace quire
