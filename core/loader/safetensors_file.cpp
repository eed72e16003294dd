#include "core/loader/safetensors_file.h"

#include <algorithm>
#include <bit>

#include "core/base/error.h"

namespace quire {
namespace {

// Lengths, offsets and elements are little endian in the file and are used without conversion.
static_assert(std::endian::native == std::endian::little);

SafetensorsHeader read_header(const File& file) {
  constexpr uint64_t kPrefixBytes = sizeof(uint64_t);
  const uint64_t file_bytes = file.size_bytes();
  if (file_bytes < kPrefixBytes) {
    throw Error(ErrorCode::truncated, "{}: {} bytes are too few for a safetensors file", file.path(),
                file_bytes);
  }
  uint64_t header_bytes = 0;
  file.read_at(0, gsl::as_writable_bytes(gsl::span<uint64_t>(&header_bytes, 1)));
  if (header_bytes > kMaxSafetensorsHeaderBytes) {
    throw Error(ErrorCode::format, "{}: a header of {} bytes, more than the limit of {}", file.path(),
                header_bytes, kMaxSafetensorsHeaderBytes);
  }
  if (header_bytes > file_bytes - kPrefixBytes) {
    throw Error(ErrorCode::truncated, "{}: a header of {} bytes in a file of {}", file.path(), header_bytes,
                file_bytes);
  }
  std::string text(static_cast<size_t>(header_bytes), '\0');
  file.read_at(kPrefixBytes, gsl::as_writable_bytes(gsl::span<char>(text.data(), text.size())));
  const uint64_t data_offset = kPrefixBytes + header_bytes;
  return parse_safetensors_header(text, data_offset, file_bytes - data_offset, file.path());
}

}  // namespace

SafetensorsFile::SafetensorsFile(std::unique_ptr<File> file)
    : file_(std::move(file)), header_(read_header(*file_)) {}

const TensorInfo* SafetensorsFile::find(std::string_view name) const {
  const auto it =
      std::lower_bound(tensors().begin(), tensors().end(), name,
                       [](const TensorInfo& tensor, std::string_view key) { return tensor.name < key; });
  return it != tensors().end() && it->name == name ? &*it : nullptr;
}

}  // namespace quire
