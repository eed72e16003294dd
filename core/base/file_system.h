// The interface to the disk. Tests replace it with one that injects faults.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <gsl/gsl>

namespace quire {

// An open regular file. Any thread may read at any time.
class File {
 public:
  virtual ~File() = default;
  virtual uint64_t size_bytes() const = 0;
  // Fills all of `out` from `offset`. Throws ErrorCode::truncated if the file ends sooner and ErrorCode::io
  // if the operating system refuses; both messages name the file.
  virtual void read_at(uint64_t offset, gsl::span<std::byte> out) const = 0;
  virtual const std::string& path() const = 0;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;
  // Opens a regular file only; a FIFO or a device is refused without blocking.
  virtual std::unique_ptr<File> open(const std::string& path) const = 0;
  virtual bool is_directory(const std::string& path) const = 0;
  virtual bool is_file(const std::string& path) const = 0;
  // Returns the names (not paths) of the entries of a directory, sorted.
  virtual std::vector<std::string> list(const std::string& path) const = 0;

  // Creates or replaces a file with the concatenation of `pieces`, atomically: writes under another name,
  // then renames. Throws ErrorCode::io on failure. This default, for a read-only file system, always throws
  // it.
  virtual void write_whole(const std::string& path, gsl::span<const gsl::span<const std::byte>> pieces) const;
  // Deletes a file. Throws ErrorCode::io or ErrorCode::not_found.
  virtual void remove(const std::string& path) const;

  // Returns a whole file as text; throws ErrorCode::format if it is larger than max_bytes.
  std::string read_text(const std::string& path, uint64_t max_bytes) const;
};

// Returns the file system of the machine. Lives as long as the process.
const FileSystem& posix_file_system();

}  // namespace quire
