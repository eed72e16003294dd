// Reads the values of a GGUF header one after another and never beyond the end of the file.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <type_traits>

#include "core/base/file_system.h"

namespace quire {

// A place in a file. It reads the file in pieces. Borrows the file.
class GgufCursor {
 public:
  explicit GgufCursor(const File& file) : file_(file) {}

  uint64_t position() const { return position_; }
  uint64_t remaining_bytes() const { return file_.size_bytes() - position_; }

  // Throws ErrorCode::truncated with the file and `what` if fewer than `count` bytes are left.
  void require(uint64_t count, std::string_view what) const;
  // Reads a number. Throws like require.
  template <typename T>
  T take(std::string_view what) {
    static_assert(std::is_arithmetic_v<T>);
    T value{};
    take_bytes(gsl::as_writable_bytes(gsl::span<T>(&value, 1)), what);
    return value;
  }
  // Reads a length of 64 bits and as many bytes. Throws like require, before it takes memory, and
  // ErrorCode::format if the length is more than `max_bytes`.
  std::string take_text(uint64_t max_bytes, std::string_view what);
  // Reads `count` bytes. Throws like require.
  std::string take_raw(uint64_t count, std::string_view what);
  // Moves on without reading. Throws like require.
  void skip(uint64_t count, std::string_view what);

 private:
  void take_bytes(gsl::span<std::byte> out, std::string_view what);

  const File& file_;
  uint64_t position_ = 0;
  std::array<std::byte, 16384> piece_;
  uint64_t piece_first_ = 0;  // position of the piece in the file
  uint64_t piece_bytes_ = 0;
};

}  // namespace quire
