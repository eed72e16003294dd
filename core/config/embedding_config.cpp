#include "core/config/embedding_config.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "core/base/ascii.h"
#include "core/base/error.h"
#include "core/base/json.h"

namespace quire {
namespace {

constexpr JsonLimits kLimits = {.max_bytes = 1U << 20, .max_depth = 16, .python_numbers = true};
constexpr const char* kModules = "modules.json";

// Ways of pooling by the flag of the older files and the word of the newer ones.
struct PoolingWay {
  std::string_view flag;
  std::string_view word;
  DeclaredPooling pooling;  // none: not supported
};
constexpr std::array<PoolingWay, 6> kWays = {{
    {"pooling_mode_mean_tokens", "mean", DeclaredPooling::mean},
    {"pooling_mode_lasttoken", "lasttoken", DeclaredPooling::last},
    {"pooling_mode_cls_token", "cls", DeclaredPooling::none},
    {"pooling_mode_max_tokens", "max", DeclaredPooling::none},
    {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", DeclaredPooling::none},
    {"pooling_mode_weightedmean_tokens", "weightedmean", DeclaredPooling::none},
}};

JsonValue read_json(const FileSystem& files, const std::string& path) {
  return parse_json(files.read_text(path, kLimits.max_bytes), path, kLimits);
}

// Returns whether a module's path is the name of a directory within the model's.
bool is_plain_name(std::string_view path) {
  const bool has_only_name_chars = std::all_of(
      path.begin(), path.end(), [](char c) { return is_ascii_letter_or_digit(c) || c == '_' || c == '-'; });
  return !path.empty() && has_only_name_chars;
}

void read_pooling(const FileSystem& files, const std::string& directory, const JsonView& module,
                  EmbeddingConfig& config) {
  const JsonView path = module.at("path");
  if (!is_plain_name(path.as_string()))
    throw Error(ErrorCode::format, "{} must be the name of a directory", path.where());
  const std::string file = fmt::format("{}/{}/config.json", directory, path.as_string());
  const JsonValue parsed = read_json(files, file);
  const JsonView settings(parsed, file);
  const std::string word = settings.string_or("pooling_mode", "");
  int num_ways = 0;
  for (const PoolingWay& way : kWays) {
    if (word.empty() ? !settings.bool_or(way.flag, false) : word != way.word) continue;
    ++num_ways;
    config.pooling = way.pooling;
    if (way.pooling == DeclaredPooling::none)
      config.unsupported = fmt::format("{}: {}", file, word.empty() ? way.flag : way.word);
  }
  if (num_ways > 1) config.unsupported = fmt::format("{}: several ways of pooling together", file);
  if (num_ways == 0) config.unsupported = fmt::format("{}: no known way of pooling", file);
}

}  // namespace

EmbeddingConfig read_embedding_config(const FileSystem& files, const std::string& directory) {
  EmbeddingConfig config;
  const std::string path = fmt::format("{}/{}", directory, kModules);
  if (!files.is_file(path)) return config;
  config.is_declared = true;
  const JsonValue parsed = read_json(files, path);
  for (const JsonView& module : JsonView(parsed, path).items()) {
    const std::string type = module.at("type").as_string();
    const std::string name = type.substr(type.rfind('.') + 1);
    if (name == "Pooling") {
      read_pooling(files, directory, module, config);
    } else if (name != "Transformer" && name != "Normalize") {
      config.unsupported = fmt::format("{}: a module of type {}", path, printable(name, 64));
    }
  }
  return config;
}

}  // namespace quire
