// Tensors of a model directory and the files that contain them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/file_system.h"
#include "core/loader/safetensors_file.h"

namespace quire {

// Returns whether a directory with files of these names has Mistral's own layout: params.json describes
// consolidated*.safetensors, and there is no config.json or no weight file that it describes.
bool is_mistral_layout(const std::vector<std::string>& names);

// Tensors of the weight files of one directory, by the headers of the files. In Mistral's layout the files
// are consolidated*.safetensors; otherwise, in this order:
// - those that model.safetensors.index.json names, if all of them exist; a tensor that several of them have
//   counts in the one that the index names for it. Otherwise the index is left over from other files;
// - model.safetensors;
// - all *.safetensors, except consolidated*.safetensors, adapter_model.safetensors, and shards
//   NAME-0000n-of-0000N.safetensors of incomplete sets beside a complete one.
// Other *.safetensors files of the directory are neither opened nor counted. Immutable after construction;
// any thread may read.
class WeightDirectory {
 public:
  struct Entry {
    const TensorInfo* tensor = nullptr;
    const File* file = nullptr;
  };
  // A tensor and the index of its file.
  struct PlacedTensor {
    TensorInfo tensor;
    size_t file = 0;
  };

  // Opens and checks the files. Throws ErrorCode::not_found if there is none, ErrorCode::format if a file or
  // the index is malformed or two files have the same tensor, ErrorCode::io if one is not a regular file.
  static WeightDirectory open(const FileSystem& file_system, const std::string& path);
  // Returns the tensors of files of another format, which was checked. Throws ErrorCode::format if two
  // tensors have the same name.
  static WeightDirectory of_tensors(std::string path, std::vector<std::shared_ptr<const File>> files,
                                    std::vector<PlacedTensor> tensors);

  const std::string& path() const { return path_; }
  size_t num_files() const { return safetensors_.size() + others_.size(); }
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
  void open_file(const FileSystem& file_system, const std::string& name);
  void finish(const std::map<std::string, std::string, std::less<>>& files_of);
  // Leaves one entry for each tensor. `files_of` maps tensors to names of files.
  void choose_copies(const std::map<std::string, std::string, std::less<>>& files_of);

  std::string path_;
  // Files that the index names and that do not exist, for messages.
  std::string missing_files_;
  std::vector<std::unique_ptr<SafetensorsFile>> safetensors_;
  std::vector<std::shared_ptr<const File>> others_;
  std::vector<PlacedTensor> placed_;  // tensors of the other files
  std::vector<Entry> entries_;
  uint64_t total_bytes_ = 0;
};

}  // namespace quire
