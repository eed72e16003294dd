#include "core/base/file_system.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include "core/base/error.h"

namespace quire {
namespace {

// Linux reads at most 0x7ffff000 bytes per call. Smaller pieces also let a cancelled load stop soon.
constexpr size_t kMaxReadBytes = size_t{64} << 20;

std::string reason(int error_number) {
  return std::generic_category().message(error_number);
}

class PosixFile final : public File {
 public:
  PosixFile(int descriptor, uint64_t size_bytes, std::string path)
      : descriptor_(descriptor), size_bytes_(size_bytes), path_(std::move(path)) {}
  PosixFile(const PosixFile&) = delete;
  PosixFile& operator=(const PosixFile&) = delete;
  ~PosixFile() override { ::close(descriptor_); }

  uint64_t size_bytes() const override { return size_bytes_; }
  const std::string& path() const override { return path_; }

  void read_at(uint64_t offset, gsl::span<std::byte> out) const override {
    size_t done = 0;
    while (done < out.size()) {
      const size_t want = std::min(out.size() - done, kMaxReadBytes);
      const ssize_t got = ::pread(descriptor_, out.data() + done, want, static_cast<off_t>(offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw Error(ErrorCode::io, "{}: read failed: {}", path_, reason(errno));
      if (got == 0) {
        throw Error(ErrorCode::truncated, "{}: ends at byte {}, but {} bytes were expected", path_,
                    offset + done, offset + out.size());
      }
      done += static_cast<size_t>(got);
    }
  }

 private:
  int descriptor_;
  uint64_t size_bytes_;
  std::string path_;
};

struct Descriptor {
  explicit Descriptor(int opened) : number(opened) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
  const int number;
};

void write_all(int descriptor, gsl::span<const std::byte> bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t wrote = ::write(descriptor, bytes.data(), std::min(bytes.size(), kMaxReadBytes));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) throw Error(ErrorCode::io, "{}: write failed: {}", path, reason(errno));
    bytes = bytes.subspan(static_cast<size_t>(wrote));
  }
}

class PosixFileSystem final : public FileSystem {
 public:
  std::unique_ptr<File> open(const std::string& path) const override {
    // O_NONBLOCK: opening a FIFO must not wait for a writer. Regular files ignore the flag.
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) {
      const ErrorCode code = errno == ENOENT ? ErrorCode::not_found : ErrorCode::io;
      throw Error(code, "{}: cannot be opened: {}", path, reason(errno));
    }
    struct stat info {};
    if (::fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) {
      ::close(descriptor);
      throw Error(ErrorCode::io, "{}: is not a regular file", path);
    }
    return std::make_unique<PosixFile>(descriptor, static_cast<uint64_t>(info.st_size), path);
  }

  bool is_directory(const std::string& path) const override {
    struct stat info {};
    return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
  }

  bool is_file(const std::string& path) const override {
    struct stat info {};
    return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
  }

  std::vector<std::string> list(const std::string& path) const override {
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(path.c_str()), &::closedir);
    if (!directory) {
      const ErrorCode code = errno == ENOENT ? ErrorCode::not_found : ErrorCode::io;
      throw Error(code, "{}: cannot be listed: {}", path, reason(errno));
    }
    std::vector<std::string> names;
    while (const dirent* entry = ::readdir(directory.get())) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..") names.push_back(name);
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  void write_whole(const std::string& path,
                   gsl::span<const gsl::span<const std::byte>> pieces) const override {
    const std::string temporary = fmt::format("{}.{}.tmp", path, ::getpid());
    {
      const Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
      try {
        if (file.number < 0)
          throw Error(ErrorCode::io, "{}: cannot be created: {}", temporary, reason(errno));
        for (const gsl::span<const std::byte> piece : pieces) write_all(file.number, piece, temporary);
      } catch (...) {
        ::unlink(temporary.c_str());
        throw;
      }
    }
    if (::rename(temporary.c_str(), path.c_str()) == 0) return;
    const int error_number = errno;
    ::unlink(temporary.c_str());
    throw Error(ErrorCode::io, "{}: cannot be written: {}", path, reason(error_number));
  }

  void remove(const std::string& path) const override {
    if (::unlink(path.c_str()) == 0) return;
    const ErrorCode code = errno == ENOENT ? ErrorCode::not_found : ErrorCode::io;
    throw Error(code, "{}: cannot be removed: {}", path, reason(errno));
  }
};

}  // namespace

std::string FileSystem::read_text(const std::string& path, uint64_t max_bytes) const {
  const auto file = open(path);
  if (file->size_bytes() > max_bytes) {
    throw Error(ErrorCode::format, "{}: {} bytes, more than the limit of {}", path, file->size_bytes(),
                max_bytes);
  }
  std::string text(file->size_bytes(), '\0');
  file->read_at(0, gsl::as_writable_bytes(gsl::span<char>(text.data(), text.size())));
  return text;
}

void FileSystem::write_whole(const std::string& path, gsl::span<const gsl::span<const std::byte>>) const {
  throw Error(ErrorCode::io, "{}: cannot be written: this file system is read-only", path);
}

void FileSystem::remove(const std::string& path) const {
  throw Error(ErrorCode::io, "{}: cannot be removed: this file system is read-only", path);
}

const FileSystem& posix_file_system() {
  // Never destroyed: threads of the engine may outlive the end of main.
  static const auto* const instance = new PosixFileSystem;
  return *instance;
}

}  // namespace quire
