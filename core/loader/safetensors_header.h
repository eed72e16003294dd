// Strict parser of the header of a safetensors file: accepts only a consistent header.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/loader/stored_type.h"

namespace quire {

// One tensor of a file. Its shape, type and byte range agree, and no other tensor overlaps its range.
struct TensorInfo {
  std::string name;
  const StoredType* type = nullptr;
  std::vector<int64_t> shape;  // at most kMaxTensorRank extents, each >= 0; their product fits
  uint64_t offset_bytes = 0;   // from the start of the file
  uint64_t size_bytes = 0;
  // Row r of the matrix is stored as row (*row_order)[r]; null: rows are in order. GGUF files order some rows
  // anew.
  std::shared_ptr<const std::vector<int32_t>> row_order{};
  float added = 0.0f;  // to each element of a vector in the file; the reader takes it away

  uint64_t num_elements() const;
};

constexpr size_t kMaxTensorRank = 8;
// Limit for one file; the largest model in use has 220,000 tensors in all its files.
constexpr size_t kMaxTensorsOfFile = size_t{1} << 18;

struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;  // sorted by name
  std::map<std::string, std::string> metadata;
};

// Parses the JSON text of a header whose file has `data_bytes` bytes of tensors from `data_offset` on. Throws
// ErrorCode::format naming `source` (the file), the tensor and the reason. Throws ErrorCode::truncated if the
// header is valid but its tensors need more than `data_bytes`. Memory use is bounded by the length of the
// text.
SafetensorsHeader parse_safetensors_header(std::string_view text, uint64_t data_offset, uint64_t data_bytes,
                                           std::string_view source);

// Returns a shape as text for messages: "[2, 3]".
std::string shape_text(const std::vector<int64_t>& shape);

}  // namespace quire
