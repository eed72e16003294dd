// One directory of files in memory that end in zeros, which take no memory.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/file_system.h"

namespace quire::testing {

struct SparseContent {
  std::string start;
  uint64_t num_zeros = 0;  // after the start
};

class SparseFiles final : public FileSystem {
 public:
  static constexpr const char* kDirectory = "model";

  void write(const std::string& name, SparseContent content) { files_[name] = std::move(content); }

  std::unique_ptr<File> open(const std::string& path) const override;
  bool is_directory(const std::string& path) const override { return path == kDirectory; }
  bool is_file(const std::string& path) const override;
  std::vector<std::string> list(const std::string& path) const override;

 private:
  std::map<std::string, SparseContent> files_;
};

}  // namespace quire::testing
