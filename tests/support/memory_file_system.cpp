#include "tests/support/memory_file_system.h"

#include <cstring>

#include "core/base/error.h"

namespace quire::testing {

class MemoryFileSystem::OpenFile final : public File {
 public:
  OpenFile(std::shared_ptr<const Content> content, std::string path)
      : content_(std::move(content)), size_bytes_(content_->bytes.size()), path_(std::move(path)) {}

  uint64_t size_bytes() const override { return size_bytes_; }
  const std::string& path() const override { return path_; }

  void read_at(uint64_t offset, gsl::span<std::byte> out) const override {
    const std::string& bytes = content_->bytes;
    if (content_->broken) throw Error(ErrorCode::io, "{}: read failed", path_);
    if (offset > bytes.size() || out.size() > bytes.size() - offset) {
      throw Error(ErrorCode::truncated, "{}: ends at byte {}", path_, bytes.size());
    }
    if (!out.empty()) std::memcpy(out.data(), bytes.data() + offset, out.size());
  }

 private:
  std::shared_ptr<const Content> content_;
  uint64_t size_bytes_;
  std::string path_;
};

void MemoryFileSystem::write(const std::string& path, std::string content) {
  files_[path] = std::make_shared<Content>(Content{std::move(content)});
}

void MemoryFileSystem::truncate(const std::string& path, size_t size_bytes) {
  files_.at(path)->bytes.resize(size_bytes);
}

void MemoryFileSystem::break_reads(const std::string& path) {
  files_.at(path)->broken = true;
}

std::unique_ptr<File> MemoryFileSystem::open(const std::string& path) const {
  const auto it = files_.find(path);
  if (it == files_.end()) throw Error(ErrorCode::not_found, "{}: cannot be opened", path);
  return std::make_unique<OpenFile>(it->second, path);
}

bool MemoryFileSystem::is_directory(const std::string& path) const {
  return !list(path).empty();
}

bool MemoryFileSystem::is_file(const std::string& path) const {
  return files_.count(path) != 0;
}

std::vector<std::string> MemoryFileSystem::list(const std::string& path) const {
  std::vector<std::string> names;
  const std::string prefix = path + "/";
  for (const auto& [name, content] : files_) {
    if (name.starts_with(prefix)) names.push_back(name.substr(prefix.size()));
  }
  return names;
}

void MemoryFileSystem::write_whole(const std::string& path,
                                   gsl::span<const gsl::span<const std::byte>> pieces) const {
  if (breaks_writes_) throw Error(ErrorCode::io, "{}: write failed", path);
  auto content = std::make_shared<Content>();
  for (const gsl::span<const std::byte> piece : pieces)
    content->bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  files_[path] = std::move(content);
}

void MemoryFileSystem::remove(const std::string& path) const {
  if (files_.erase(path) == 0) throw Error(ErrorCode::not_found, "{}: cannot be removed", path);
}

}  // namespace quire::testing
