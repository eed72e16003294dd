// Tensors of a model directory and the files that contain them.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/file_system.h"
#include "core/loader/safetensors_file.h"

namespace quire {

// All *.safetensors files of one directory, by their own headers. The index file is never read, because
// copies of it may be older than the shards. Immutable after construction; any thread may read.
class WeightDirectory {
 public:
  struct Entry {
    const TensorInfo* tensor = nullptr;
    const SafetensorsFile* file = nullptr;
  };

  // Opens and checks every file. Throws ErrorCode::not_found if there is none, ErrorCode::format if a file is
  // malformed or two files have the same tensor, ErrorCode::io if one is not a regular file.
  static WeightDirectory open(const FileSystem& file_system, const std::string& path);

  const std::string& path() const { return path_; }
  size_t num_files() const { return files_.size(); }
  // Returns the size of all tensors together.
  uint64_t total_bytes() const { return total_bytes_; }

  // Returns all tensors, sorted by name.
  const std::vector<Entry>& entries() const { return entries_; }
  // Returns nullptr if there is no such tensor.
  const Entry* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }
  // Throws ErrorCode::format naming the directory and the tensor if it is missing.
  const Entry& at(std::string_view name) const;

 private:
  std::string path_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::vector<Entry> entries_;
  uint64_t total_bytes_ = 0;
};

}  // namespace quire
