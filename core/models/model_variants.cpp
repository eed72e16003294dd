#include "core/models/model_variants.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "core/base/error.h"
#include "core/models/model_source.h"
#include "core/models/synthetic_model.h"

namespace quire {
namespace {

constexpr size_t kMaxVariants = 64;

// Returns the properties that all variants of a model must have in common.
auto shape_of(const ModelConfig& config) {
  return std::tuple(config.architecture->name, config.num_layers, config.hidden_size, config.vocab_size,
                    config.heads.num_heads, config.heads.num_kv_heads);
}

bool describes_model(const FileSystem& files, const std::string& path) {
  return files.is_file(path + "/config.json") || files.is_file(path + "/params.json");
}

std::vector<std::string> directories_of_models(const FileSystem& files, const std::string& path) {
  std::vector<std::string> found;
  for (const std::string& name : files.list(path)) {
    std::string inner = path;
    inner.append("/").append(name);
    if (files.is_directory(inner) && describes_model(files, inner)) found.push_back(std::move(inner));
  }
  if (found.size() > kMaxVariants)
    throw Error(ErrorCode::unsupported,
                "{}: holds {} models, but one model has at most {} precisions; name the directory of one",
                path, found.size(), kMaxVariants);
  return found;
}

}  // namespace

std::vector<std::string> model_variants(const FileSystem& files, const std::string& path) {
  if (is_synthetic(path) || !files.is_directory(path) || describes_model(files, path)) return {path};
  const std::vector<std::string> found = directories_of_models(files, path);
  if (found.empty()) return {path};
  std::vector<std::pair<uint64_t, std::string>> sized;
  const auto first = open_model_source(files, found.front());
  for (const std::string& inner : found) {
    const auto source = open_model_source(files, inner);
    if (shape_of(source->config()) != shape_of(first->config()))
      throw Error(ErrorCode::unsupported,
                  "{}: holds models of different shapes ({} and {}), not several precisions of one model; "
                  "name the directory of one",
                  path, found.front(), inner);
    sized.emplace_back(source->tensors().size_bytes, inner);
  }
  std::stable_sort(sized.begin(), sized.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> variants;
  variants.reserve(sized.size());
  for (auto& [bytes, inner] : sized) variants.push_back(std::move(inner));
  return variants;
}

}  // namespace quire
