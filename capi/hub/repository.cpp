#include "capi/hub/repository.h"

#include <set>

#include <nlohmann/json.hpp>

#include "capi/hub/error.h"
#include "capi/hub/json_depth.h"
#include "capi/hub/model_name.h"

namespace quire::hub {
namespace {

using Json = nlohmann::json;

constexpr int kMaxDepth = 32;
constexpr size_t kMaxFiles = 100000;
constexpr int64_t kMaxFileBytes = int64_t{1} << 50;
constexpr size_t kSha1Digits = 40;
constexpr size_t kSha256Digits = 64;

HubError malformed(const std::string& where, const std::string& what) {
  return {Problem::failed, where + ": the list of files is malformed: " + what};
}

// Returns a text member; empty if it is absent or something else.
std::string text_at(const Json& object, const char* name) {
  const auto member = object.find(name);
  return member != object.end() && member->is_string() ? member->get<std::string>() : std::string();
}

int64_t size_at(const Json& object, const std::string& where) {
  const auto member = object.find("size");
  if (member == object.end() || !member->is_number_integer())
    throw malformed(where, "a file has no size; the hub must support ?blobs=true");
  // A number above the signed range is unsigned in this library, and negative after the conversion.
  const auto size = member->get<int64_t>();
  if (size < 0 || size > kMaxFileBytes) throw malformed(where, "the size of a file is out of range");
  return size;
}

RepositoryFile read_file(const Json& entry, const std::string& where) {
  RepositoryFile file;
  file.path = text_at(entry, "rfilename");
  if (!is_safe_path(file.path)) throw malformed(where, "the name of a file leads out of its folder");
  file.size = size_at(entry, where);
  if (const auto lfs = entry.find("lfs"); lfs != entry.end() && lfs->is_object()) {
    file.sha256 = text_at(*lfs, "sha256");
    if (file.sha256.empty()) file.sha256 = text_at(*lfs, "oid");
    if (!is_hex(file.sha256, kSha256Digits)) throw malformed(where, file.path + " has no SHA-256");
    return file;
  }
  file.git_sha1 = text_at(entry, "blobId");
  if (!is_hex(file.git_sha1, kSha1Digits)) throw malformed(where, file.path + " has no SHA-1");
  return file;
}

Json parse_limited(std::string_view text, const std::string& where) {
  if (exceeds_depth(text, kMaxDepth)) throw malformed(where, "it is nested too deeply");
  try {
    return Json::parse(text);
  } catch (const Json::exception&) {
    throw malformed(where, "it is no JSON");
  }
}

}  // namespace

std::vector<std::string> Repository::names() const {
  std::vector<std::string> out;
  out.reserve(files.size());
  for (const RepositoryFile& file : files) out.push_back(file.path);
  return out;
}

Repository parse_repository(std::string_view json, const std::string& where) {
  const Json parsed = parse_limited(json, where);
  if (!parsed.is_object()) throw malformed(where, "it is no object");
  Repository repository;
  repository.commit = text_at(parsed, "sha");
  if (!is_hex(repository.commit, kSha1Digits)) throw malformed(where, "it names no commit");
  const auto siblings = parsed.find("siblings");
  if (siblings == parsed.end() || !siblings->is_array()) throw malformed(where, "it has no files");
  if (siblings->size() > kMaxFiles) throw malformed(where, "it has more than 100000 files");
  std::set<std::string> paths;
  for (const Json& entry : *siblings) {
    if (!entry.is_object()) throw malformed(where, "a file is no object");
    repository.files.push_back(read_file(entry, where));
    if (!paths.insert(repository.files.back().path).second)
      throw malformed(where, repository.files.back().path + " is there twice");
  }
  return repository;
}

}  // namespace quire::hub
