#include "tests/support/sparse_files.h"

#include <algorithm>
#include <cstring>

#include "core/base/error.h"

namespace quire::testing {
namespace {

class SparseFile final : public File {
 public:
  SparseFile(std::string path, SparseContent content)
      : path_(std::move(path)), content_(std::move(content)) {}

  uint64_t size_bytes() const override { return content_.start.size() + content_.num_zeros; }
  const std::string& path() const override { return path_; }
  void read_at(uint64_t offset, gsl::span<std::byte> out) const override {
    if (offset > size_bytes() || out.size() > size_bytes() - offset)
      throw Error(ErrorCode::truncated, "{}: ends at byte {}", path_, size_bytes());
    if (out.empty()) return;
    std::memset(out.data(), 0, out.size());
    if (offset >= content_.start.size()) return;
    const uint64_t stored = std::min<uint64_t>(out.size(), content_.start.size() - offset);
    std::memcpy(out.data(), content_.start.data() + offset, stored);
  }

 private:
  const std::string path_;
  const SparseContent content_;
};

std::string name_in(const std::string& path) {
  return path.substr(path.find('/') + 1);
}

}  // namespace

std::unique_ptr<File> SparseFiles::open(const std::string& path) const {
  if (!is_file(path)) throw Error(ErrorCode::not_found, "{}: no such file", path);
  return std::make_unique<SparseFile>(path, files_.at(name_in(path)));
}

bool SparseFiles::is_file(const std::string& path) const {
  return files_.contains(name_in(path));
}

std::vector<std::string> SparseFiles::list(const std::string&) const {
  std::vector<std::string> names;
  for (const auto& [name, content] : files_) names.push_back(name);
  return names;
}

}  // namespace quire::testing
