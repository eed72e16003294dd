// Files in memory, which a test may change while they are open.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/file_system.h"

namespace quire::testing {

// For one thread at a time. Paths are "directory/name".
class MemoryFileSystem final : public FileSystem {
 public:
  void write(const std::string& path, std::string content);
  // Truncates a file, including for those who have it open.
  void truncate(const std::string& path, size_t size_bytes);
  // Makes every later read of this file fail with ErrorCode::io.
  void break_reads(const std::string& path);

  std::unique_ptr<File> open(const std::string& path) const override;
  bool is_directory(const std::string& path) const override;
  bool is_file(const std::string& path) const override;
  std::vector<std::string> list(const std::string& path) const override;
  void write_whole(const std::string& path,
                   gsl::span<const gsl::span<const std::byte>> pieces) const override;
  void remove(const std::string& path) const override;
  // Makes every later write fail with ErrorCode::io.
  void break_writes() { breaks_writes_ = true; }

 private:
  struct Content {
    std::string bytes;
    bool broken = false;
  };
  class OpenFile;

  mutable std::map<std::string, std::shared_ptr<Content>> files_;
  bool breaks_writes_ = false;
};

}  // namespace quire::testing
