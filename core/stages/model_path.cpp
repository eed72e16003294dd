#include "core/stages/model_path.h"

#include <algorithm>
#include <vector>

#include "core/base/error.h"
#include "core/models/synthetic_model.h"

namespace quire {
namespace {

constexpr size_t kMaxPathBytes = 4096;

// Returns the names of a path, without empty ones and ".".
std::vector<std::string_view> names_of(std::string_view path) {
  std::vector<std::string_view> names;
  while (!path.empty()) {
    const size_t slash = std::min(path.find('/'), path.size());
    const std::string_view name = path.substr(0, slash);
    if (!name.empty() && name != ".") names.push_back(name);
    path.remove_prefix(std::min(slash + 1, path.size()));
  }
  return names;
}

}  // namespace

std::string find_model(const FileSystem& files, const std::string& directory, std::string_view path) {
  if (is_synthetic(path)) return std::string(path);
  const std::vector<std::string_view> names =
      path.size() > kMaxPathBytes ? std::vector<std::string_view>() : names_of(path);
  const bool has_parent = std::find(names.begin(), names.end(), "..") != names.end();
  if (names.empty() || has_parent || path.find('\0') != std::string_view::npos)
    throw Error(ErrorCode::invalid_argument, "\"{}\" is not a path of a model", printable(path)).at("path");
  for (size_t first = 0; first < names.size() && !directory.empty(); ++first) {
    std::string found = directory;
    for (size_t i = first; i < names.size(); ++i) found.append("/").append(names[i]);
    if (files.is_directory(found) || files.is_file(found)) return found;
  }
  throw Error(ErrorCode::not_found,
              "the stage has no model \"{}\" below {}; copy the files of the model there, or start the stage "
              "with another --models",
              printable(names.back()), directory.empty() ? "a directory of its own" : directory)
      .at("path");
}

}  // namespace quire
