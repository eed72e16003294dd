// Files and folders of the cache: descriptors that close themselves, and errors that name the path.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quire::hub {

// Open file. Every function throws HubError that names the path.
class OpenFile {
 public:
  OpenFile() = default;
  OpenFile(std::string path, int flags);
  ~OpenFile();
  OpenFile(OpenFile&& other) noexcept;
  OpenFile& operator=(OpenFile&& other) noexcept;

  const std::string& path() const { return path_; }
  bool is_open() const { return descriptor_ >= 0; }
  int64_t size() const;
  int64_t allocated_bytes() const;
  // Reserves space on the disk, if the file system can.
  void reserve(int64_t size) const;
  void resize(int64_t size) const;
  // Returns the number of bytes that were read: fewer than wanted at the end of the file.
  size_t read_at(int64_t offset, char* data, size_t size) const;
  void write_at(int64_t offset, std::string_view bytes) const;
  void append(std::string_view bytes) const;
  void sync() const;
  // Takes the lock that other programs respect. Returns false if another one has it.
  bool try_lock() const;

 private:
  [[noreturn]] void fail(const char* action) const;

  std::string path_;
  int descriptor_ = -1;
};

void make_folders(const std::string& path);
// Replaces `to` in one step, and makes the new name durable.
void rename_file(const std::string& from, const std::string& to);
void remove_file(const std::string& path);
// Creates or replaces a symbolic link in one step.
void replace_link(const std::string& target, const std::string& link);
// Creates or replaces a small file in one step.
void replace_text(const std::string& path, const std::string& text);

// Returns the text of a file of at most `max_bytes`; nothing if it cannot be read or is larger.
std::optional<std::string> read_small_file(const std::string& path, size_t max_bytes);

// Returns the bytes that this user may still write to the file system of a folder.
int64_t free_bytes(const std::string& folder);

// Returns the size of what a path leads to; nothing if it is no regular file.
std::optional<int64_t> regular_file_size(const std::string& path);

}  // namespace quire::hub
