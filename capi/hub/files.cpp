#include "capi/hub/files.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <limits>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <utility>

#include "capi/hub/error.h"

namespace quire::hub {
namespace {

[[noreturn]] void fail_at(const std::string& path, const char* action) {
  throw HubError(Problem::failed, path + ": cannot " + action + ": " + std::strerror(errno));
}

std::string folder_of(const std::string& path) {
  return path.substr(0, path.find_last_of('/'));
}

}  // namespace

OpenFile::OpenFile(std::string path, int flags)
    : path_(std::move(path)), descriptor_(::open(path_.c_str(), flags | O_CLOEXEC, 0666)) {
  if (descriptor_ < 0) fail("open it");
}

OpenFile::~OpenFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

OpenFile::OpenFile(OpenFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

OpenFile& OpenFile::operator=(OpenFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

void OpenFile::fail(const char* action) const {
  fail_at(path_, action);
}

int64_t OpenFile::size() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) fail("query its size");
  return status.st_size;
}

int64_t OpenFile::allocated_bytes() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) fail("query its size");
  return int64_t{status.st_blocks} * 512;
}

void OpenFile::reserve(int64_t size) const {
  if (size > 0 && ::fallocate(descriptor_, 0, 0, size) != 0 && (errno == ENOSPC || errno == EFBIG))
    fail("reserve its size on the disk");
}

void OpenFile::resize(int64_t size) const {
  if (::ftruncate(descriptor_, size) != 0) fail("change its size");
}

size_t OpenFile::read_at(int64_t offset, char* data, size_t size) const {
  size_t done = 0;
  while (done < size) {
    const ssize_t count = ::pread(descriptor_, data + done, size - done, offset + static_cast<int64_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("read it");
    if (count == 0) break;
    done += static_cast<size_t>(count);
  }
  return done;
}

void OpenFile::write_at(int64_t offset, std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(descriptor_, bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail("write it");
    bytes.remove_prefix(static_cast<size_t>(count));
    offset += count;
  }
}

void OpenFile::append(std::string_view bytes) const {
  if (::write(descriptor_, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
    fail("write it");
}

void OpenFile::sync() const {
  if (::fsync(descriptor_) != 0) fail("write it to the disk");
}

bool OpenFile::try_lock() const {
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return true;
  if (errno != EWOULDBLOCK) fail("lock it");
  return false;
}

void make_folders(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) throw HubError(Problem::failed, path + ": cannot create the folder: " + error.message());
}

void rename_file(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) fail_at(to, "replace it");
  OpenFile(folder_of(to), O_RDONLY | O_DIRECTORY).sync();
}

void remove_file(const std::string& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) fail_at(path, "remove it");
}

void replace_link(const std::string& target, const std::string& link) {
  const std::string temporary = link + ".quire-" + std::to_string(::getpid());
  remove_file(temporary);
  if (::symlink(target.c_str(), temporary.c_str()) != 0) fail_at(temporary, "create the link");
  rename_file(temporary, link);
}

void replace_text(const std::string& path, const std::string& text) {
  const std::string temporary = path + ".quire-" + std::to_string(::getpid());
  const OpenFile file(temporary, O_WRONLY | O_CREAT | O_TRUNC);
  file.append(text);
  file.sync();
  rename_file(temporary, path);
}

std::optional<std::string> read_small_file(const std::string& path, size_t max_bytes) {
  if (!regular_file_size(path)) return std::nullopt;
  const OpenFile file(path, O_RDONLY);
  std::string text(max_bytes + 1, '\0');
  text.resize(file.read_at(0, text.data(), text.size()));
  if (text.size() > max_bytes) return std::nullopt;
  return text;
}

int64_t free_bytes(const std::string& folder) {
  struct statvfs status {};
  if (::statvfs(folder.c_str(), &status) != 0) fail_at(folder, "query the free space");
  int64_t bytes = 0;
  if (__builtin_mul_overflow(status.f_bavail, status.f_frsize, &bytes))
    return std::numeric_limits<int64_t>::max();
  return bytes;
}

std::optional<int64_t> regular_file_size(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return status.st_size;
}

}  // namespace quire::hub
