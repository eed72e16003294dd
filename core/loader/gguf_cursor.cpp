#include "core/loader/gguf_cursor.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/base/error.h"

namespace quire {

// Numbers are little endian in the file and are used without conversion.
static_assert(std::endian::native == std::endian::little);

void GgufCursor::require(uint64_t count, std::string_view what) const {
  if (count <= remaining_bytes()) return;
  throw Error(ErrorCode::truncated, "{}: {} needs {} bytes at byte {}, but the file has {}", file_.path(),
              what, count, position_, file_.size_bytes());
}

void GgufCursor::take_bytes(gsl::span<std::byte> out, std::string_view what) {
  require(out.size(), what);
  if (out.size() > piece_.size()) {
    file_.read_at(position_, out);
  } else if (!out.empty()) {
    if (position_ < piece_first_ || position_ + out.size() > piece_first_ + piece_bytes_) {
      piece_first_ = position_;
      piece_bytes_ = std::min<uint64_t>(piece_.size(), remaining_bytes());
      file_.read_at(piece_first_, gsl::span<std::byte>(piece_.data(), piece_bytes_));
    }
    std::memcpy(out.data(), piece_.data() + (position_ - piece_first_), out.size());
  }
  position_ += out.size();
}

std::string GgufCursor::take_raw(uint64_t count, std::string_view what) {
  require(count, what);
  std::string bytes(static_cast<size_t>(count), '\0');
  take_bytes(gsl::as_writable_bytes(gsl::span<char>(bytes.data(), bytes.size())), what);
  return bytes;
}

std::string GgufCursor::take_text(uint64_t max_bytes, std::string_view what) {
  const auto length = take<uint64_t>(what);
  require(length, what);
  if (length > max_bytes) {
    throw Error(ErrorCode::format, "{}: {} has {} bytes, more than the limit of {}", file_.path(), what,
                length, max_bytes);
  }
  return take_raw(length, what);
}

void GgufCursor::skip(uint64_t count, std::string_view what) {
  require(count, what);
  position_ += count;
}

}  // namespace quire
