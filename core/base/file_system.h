// The seam to the disk. Tests put a fault-injecting one in its place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <gsl/gsl>

namespace quire {

// One open regular file. Any thread may read at any time.
class File {
 public:
  virtual ~File() = default;
  virtual uint64_t size_bytes() const = 0;
  // Fills all of `out` from `offset`. A file that ends sooner is ErrorCode::truncated, a refusal of the
  // operating system ErrorCode::io; both name the file.
  virtual void read_at(uint64_t offset, gsl::span<std::byte> out) const = 0;
  virtual const std::string& path() const = 0;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;
  // Only regular files open (a FIFO or a device is refused without blocking).
  virtual std::unique_ptr<File> open(const std::string& path) const = 0;
  virtual bool is_directory(const std::string& path) const = 0;
  virtual bool is_file(const std::string& path) const = 0;
  // Names (not paths) of the entries of a directory, sorted.
  virtual std::vector<std::string> list(const std::string& path) const = 0;

  // Makes a file of these pieces, or replaces it, whole or not at all: it is written under another name
  // first. Throws ErrorCode::io, as one does that can only be read.
  virtual void write_whole(const std::string& path, gsl::span<const gsl::span<const std::byte>> pieces) const;
  // Throws ErrorCode::io, or ErrorCode::not_found.
  virtual void remove(const std::string& path) const;

  // A whole file as text; larger than max_bytes is ErrorCode::format.
  std::string read_text(const std::string& path, uint64_t max_bytes) const;
};

// The real one. Lives as long as the process.
const FileSystem& posix_file_system();

}  // namespace quire
