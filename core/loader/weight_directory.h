// What tensors a model directory holds, and in which of its files each lies.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/file_system.h"
#include "core/loader/safetensors_file.h"

namespace quire {

// All *.safetensors files of one directory, by their own headers; an index file is never read, since copies
// of one outlive the shards it lists. Immutable once made; any thread may read.
class WeightDirectory {
 public:
  struct Entry {
    const TensorInfo* tensor = nullptr;
    const SafetensorsFile* file = nullptr;
  };

  // Opens and checks every file. Throws ErrorCode::not_found where there is none, ErrorCode::format where a
  // file is malformed or two of them hold the same tensor, ErrorCode::io where one is no regular file.
  static WeightDirectory open(const FileSystem& file_system, const std::string& path);

  const std::string& path() const { return path_; }
  size_t num_files() const { return files_.size(); }
  // Of all tensors together.
  uint64_t total_bytes() const { return total_bytes_; }

  // Sorted by name.
  const std::vector<Entry>& entries() const { return entries_; }
  // nullptr where there is no such tensor.
  const Entry* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }
  // Throws ErrorCode::format naming the directory and the tensor where it is missing.
  const Entry& at(std::string_view name) const;

 private:
  std::string path_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::vector<Entry> entries_;
  uint64_t total_bytes_ = 0;
};

}  // namespace quire
