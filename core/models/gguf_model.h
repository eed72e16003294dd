// The files of a GGUF model: metadata of its architecture, and tensors by name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/loader/gguf_file.h"

namespace quire {

// Open files of one model. Keys of an architecture are named without it: "block_count" for
// "llama.block_count".
class GgufModel {
 public:
  // Throws the errors of open_gguf_files.
  GgufModel(const FileSystem& files, const std::string& path) : files_(open_gguf_files(files, path)) {}

  const std::string& path() const { return files_.front().path(); }
  const GgufMetadata& metadata() const { return files_.front().metadata(); }
  const std::vector<GgufFile>& files() const { return files_; }

  // Throws ErrorCode::format if it is missing, ErrorCode::unsupported if the file has no model of text: a
  // vocabulary alone is one, a projector of images or an adapter is not.
  std::string_view architecture() const;
  // Returns the key of the architecture's field.
  std::string key(std::string_view field) const {
    return std::string(architecture()) + "." + std::string(field);
  }
  std::optional<int64_t> integer(std::string_view field) const { return metadata().integer(key(field)); }
  std::optional<double> number(std::string_view field) const { return metadata().number(key(field)); }
  std::optional<bool> flag(std::string_view field) const { return metadata().flag(key(field)); }
  int64_t require_integer(std::string_view field) const { return metadata().require_integer(key(field)); }
  // Use of entries of 0 in a list that has one for each layer.
  enum class Zeros : uint8_t { count, are_absent };
  // Returns the field if it is a number, or all entries of it are the same one. Throws ErrorCode::unsupported
  // if they differ between layers.
  std::optional<int64_t> same_in_layers(std::string_view field, Zeros zeros = Zeros::count) const;
  // Returns whether a layer's entry of a list is above 0; nothing if the field is no list or too short.
  std::optional<bool> is_positive(std::string_view field, int32_t layer) const;

  // Returns nullptr if no file has the tensor.
  const TensorInfo* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }
  // Returns the values of an F32 vector; empty if there is none. Throws ErrorCode::format if it is no such
  // vector.
  std::vector<float> floats(std::string_view name) const;
  // Returns the layers that a forward pass computes: those after them predict tokens ahead.
  int32_t num_layers() const;

 private:
  std::vector<GgufFile> files_;
};

}  // namespace quire
