#include "core/models/foreign_path.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "core/base/ascii.h"
#include "core/base/error.h"

namespace quire {
namespace {

constexpr std::string_view kLoadableModels =
    "a model is a directory with config.json, tokenizer.json and *.safetensors, as the client of a model hub "
    "downloads it, or a GGUF file";

struct Kind {
  std::string_view begins_with;
  std::string_view name;
};

constexpr std::array<Kind, 4> kKinds = {{
    {"lmgg", "a GGML file, which this build does not read"},
    {"PK\x03\x04", "a zip archive (as PyTorch writes weights), which this build does not read"},
    {"\x80\x02", "a Python pickle, which this build never reads: it would run code"},
    {"<", "text that begins like a web page"},
}};

// Returns the first 16 bytes of a file, or all bytes if it is shorter.
std::string first_bytes(const FileSystem& files, const std::string& path) {
  const auto file = files.open(path);
  std::string bytes(static_cast<size_t>(std::min<uint64_t>(file->size_bytes(), 16)), '\0');
  file->read_at(0, gsl::as_writable_bytes(gsl::span<char>(bytes.data(), bytes.size())));
  return bytes;
}

const Kind* find_kind(std::string_view bytes) {
  const auto* found = std::find_if(kKinds.begin(), kKinds.end(),
                                   [&](const Kind& kind) { return bytes.starts_with(kind.begins_with); });
  return found == kKinds.end() ? nullptr : found;
}

// True if the bytes are a header length of eight bytes, followed by JSON.
bool looks_like_safetensors(std::string_view bytes) {
  return bytes.size() > 8 && bytes[8] == '{' && bytes[7] == '\0';
}

// True if the path has the form "owner/name": one slash between names of letters, digits, '-', '_' and '.',
// and no dot at the beginning.
bool looks_like_hub_name(std::string_view path) {
  const auto is_name = [](char c) { return is_ascii_letter_or_digit(c) || c == '-' || c == '_' || c == '.'; };
  const size_t slash = path.find('/');
  if (slash == 0 || slash == std::string_view::npos || slash + 1 == path.size() || path.front() == '.')
    return false;
  return std::all_of(path.begin(), path.begin() + static_cast<ptrdiff_t>(slash), is_name) &&
         std::all_of(path.begin() + static_cast<ptrdiff_t>(slash) + 1, path.end(), is_name);
}

bool ends_with_any(const std::string& name, const std::array<std::string_view, 4>& endings) {
  return std::any_of(endings.begin(), endings.end(),
                     [&](std::string_view ending) { return name.ends_with(ending); });
}

}  // namespace

bool is_tokenizer_file(const FileSystem& files, const std::string& path) {
  if (!files.is_file(path)) return false;
  const std::string bytes = first_bytes(files, path);
  return find_kind(bytes) == nullptr && !looks_like_safetensors(bytes);
}

void refuse_foreign_file(const FileSystem& files, const std::string& path) {
  if (files.is_file(path)) {
    const std::string bytes = first_bytes(files, path);
    if (const Kind* kind = find_kind(bytes)) {
      throw Error(ErrorCode::unsupported, "{}: this is {}; {}", path, kind->name, kLoadableModels);
    }
    if (looks_like_safetensors(bytes)) {
      throw Error(ErrorCode::unsupported,
                  "{}: this is a single file of weights; name the directory that holds it and config.json",
                  path);
    }
    if (path.ends_with(".gguf"))
      throw Error(ErrorCode::format, "{}: does not begin with \"GGUF\"; bring the file anew", path);
    throw Error(ErrorCode::unsupported, "{}: a single file can only be loaded with the tokenizer scope; {}",
                path, kLoadableModels);
  }
  if (looks_like_hub_name(path)) {
    throw Error(ErrorCode::not_found,
                "{}: no such model directory; if this is a name on a model hub, download it with the client "
                "of the hub and name the directory",
                path);
  }
  throw Error(ErrorCode::not_found, "{}: no such model directory; {}", path, kLoadableModels);
}

void refuse_foreign_directory(const FileSystem& files, const std::string& path) {
  constexpr std::array<std::string_view, 4> kForeign = {".gguf", ".bin", ".pt", ".pth"};
  for (const std::string& name : files.list(path)) {
    if (!ends_with_any(name, kForeign)) continue;
    if (name.ends_with(".gguf"))
      throw Error(ErrorCode::unsupported, "{}: holds {} but no config.json; name that file", path,
                  printable(name));
    throw Error(ErrorCode::unsupported, "{}: holds {} but no config.json; {}", path, printable(name),
                kLoadableModels);
  }
  throw Error(ErrorCode::not_found, "{}/config.json: no such file; {}", path, kLoadableModels);
}

}  // namespace quire
