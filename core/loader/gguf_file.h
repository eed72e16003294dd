// Open GGUF file whose header was validated: metadata and the table of tensors.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/file_system.h"
#include "core/loader/gguf_metadata.h"
#include "core/loader/safetensors_header.h"

namespace quire {

// Returns whether the file begins like a GGUF file. False if it cannot be opened.
bool is_gguf_file(const FileSystem& files, const std::string& path);

// Immutable after construction; any thread may read.
class GgufFile {
 public:
  // Throws ErrorCode::truncated, ErrorCode::format or ErrorCode::unsupported naming the file and the problem.
  explicit GgufFile(std::unique_ptr<File> file);

  const std::string& path() const { return file_->path(); }
  const GgufMetadata& metadata() const { return metadata_; }
  // Returns the tensors, sorted by name. Shapes begin with the outermost dimension: a matrix is [outputs,
  // inputs]. Tensors do not overlap, and each row is a whole number of blocks.
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  const TensorInfo* find(std::string_view name) const;  // nullptr if absent
  const std::shared_ptr<const File>& file() const { return file_; }

 private:
  void read_header();
  void read_tensors(GgufCursor& cursor, uint64_t count);
  void place_tensors(uint64_t data_offset);

  std::shared_ptr<const File> file_;
  GgufMetadata metadata_;
  std::vector<TensorInfo> tensors_;
};

// Returns the type of tensors that has this number in GGUF files; nullptr if it is not supported.
const StoredType* find_gguf_type(uint32_t id);

// Opens a file, or all files of a model that is stored in several: NAME-00001-of-0000N.gguf, of which `path`
// is the first one. The first has the metadata. Throws the errors of GgufFile, and ErrorCode::not_found if a
// file is missing.
std::vector<GgufFile> open_gguf_files(const FileSystem& files, const std::string& path);

}  // namespace quire
