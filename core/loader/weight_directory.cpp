#include "core/loader/weight_directory.h"

#include <algorithm>

#include "core/base/checked_math.h"
#include "core/base/error.h"

namespace quire {
namespace {

constexpr std::string_view kExtension = ".safetensors";

bool is_weight_file(std::string_view name) {
  return name.size() > kExtension.size() && name.ends_with(kExtension);
}

}  // namespace

WeightDirectory WeightDirectory::open(const FileSystem& file_system, const std::string& path) {
  WeightDirectory directory;
  directory.path_ = path;
  for (const std::string& name : file_system.list(path)) {
    if (!is_weight_file(name)) continue;
    std::string file = path;
    file.append("/").append(name);
    directory.files_.push_back(std::make_unique<SafetensorsFile>(file_system.open(file)));
  }
  if (directory.files_.empty()) throw Error(ErrorCode::not_found, "{}: holds no *.safetensors file", path);
  for (const auto& file : directory.files_) {
    for (const TensorInfo& tensor : file->tensors()) {
      directory.entries_.push_back({&tensor, file.get()});
      directory.total_bytes_ = checked_add(directory.total_bytes_, tensor.size_bytes, path);
    }
  }
  auto& entries = directory.entries_;
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.tensor->name < b.tensor->name; });
  const auto twin = std::adjacent_find(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.tensor->name == b.tensor->name;
  });
  if (twin != entries.end()) {
    throw Error(ErrorCode::format, "{}: tensor \"{}\" is also in {}", twin->file->path(),
                printable(twin->tensor->name), std::next(twin)->file->path());
  }
  return directory;
}

const WeightDirectory::Entry* WeightDirectory::find(std::string_view name) const {
  const auto it =
      std::lower_bound(entries_.begin(), entries_.end(), name,
                       [](const Entry& entry, std::string_view key) { return entry.tensor->name < key; });
  return it != entries_.end() && it->tensor->name == name ? &*it : nullptr;
}

const WeightDirectory::Entry& WeightDirectory::at(std::string_view name) const {
  const Entry* entry = find(name);
  if (!entry) throw Error(ErrorCode::format, "{}: no file holds the tensor \"{}\"", path_, printable(name));
  return *entry;
}

}  // namespace quire
