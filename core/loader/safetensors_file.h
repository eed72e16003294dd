// One open safetensors file whose header has been found sound.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/file_system.h"
#include "core/loader/safetensors_header.h"

namespace quire {

// The largest header that is read, in bytes; the same limit as the format's own library.
constexpr uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;

// Immutable once made; any thread may read.
class SafetensorsFile {
 public:
  // Throws ErrorCode::truncated or ErrorCode::format naming the file and what is wrong with it.
  explicit SafetensorsFile(std::unique_ptr<File> file);

  const std::string& path() const { return file_->path(); }
  const std::vector<TensorInfo>& tensors() const { return header_.tensors; }  // sorted by name
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  const TensorInfo* find(std::string_view name) const;  // nullptr where absent
  const File& file() const { return *file_; }

 private:
  std::unique_ptr<File> file_;
  SafetensorsHeader header_;
};

}  // namespace quire
