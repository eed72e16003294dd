// Open safetensors file whose header was validated.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/file_system.h"
#include "core/loader/safetensors_header.h"

namespace quire {

// Largest accepted header, in bytes; the safetensors library has the same limit.
constexpr uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;

// Immutable after construction; any thread may read.
class SafetensorsFile {
 public:
  // Throws ErrorCode::truncated or ErrorCode::format naming the file and the problem.
  explicit SafetensorsFile(std::unique_ptr<File> file);

  const std::string& path() const { return file_->path(); }
  const std::vector<TensorInfo>& tensors() const { return header_.tensors; }  // sorted by name
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  const TensorInfo* find(std::string_view name) const;  // nullptr if absent
  const File& file() const { return *file_; }

 private:
  std::unique_ptr<File> file_;
  SafetensorsHeader header_;
};

}  // namespace quire
