#include "capi/hub/cache.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "capi/hub/error.h"
#include "capi/hub/files.h"

namespace quire::hub {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPrefix = "models--";
constexpr size_t kCommitDigits = 40;
constexpr size_t kMaxReferenceBytes = 256;
constexpr int kMaxDepth = 8;          // of folders in a snapshot
constexpr size_t kMaxNames = 100000;  // in a snapshot

// Returns the commit of a branch or tag; nothing if the cache does not know it.
std::optional<std::string> commit_of(const RepositoryFolders& folders, const std::string& revision) {
  if (is_hex(revision, kCommitDigits)) return revision;
  std::optional<std::string> text = read_small_file(folders.reference(revision), kMaxReferenceBytes);
  if (!text) return std::nullopt;
  text->erase(std::find_if(text->begin(), text->end(), [](char c) { return c == '\n' || c == '\r'; }),
              text->end());
  if (!is_hex(*text, kCommitDigits)) return std::nullopt;
  return text;
}

// Returns the paths of the regular files below a folder, relative to it, in order. Links to folders are not
// followed, and links without a target are left out.
std::vector<std::string> names_below(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, fs::directory_options::skip_permission_denied, error);
  for (const fs::recursive_directory_iterator end; !error && entry != end && names.size() < kMaxNames;
       entry.increment(error)) {
    if (entry.depth() >= kMaxDepth) entry.disable_recursion_pending();
    if (regular_file_size(entry->path().string()))
      names.push_back(entry->path().string().substr(folder.size() + 1));
  }
  std::sort(names.begin(), names.end());
  return names;
}

CachedModel choose_cached(const RepositoryFolders& folders, const ModelName& name, const std::string& commit,
                          const std::vector<std::string>& names) {
  const std::string snapshot = folders.snapshot(commit);
  const ModelFiles files = choose_model_files(names, name.choice);
  const std::string path = files.path();
  CachedModel model{.name = name, .commit = commit, .path = path.empty() ? snapshot : snapshot + "/" + path};
  for (const std::string& file : files.files)
    model.bytes += regular_file_size(snapshot + "/" + file).value_or(0);
  return model;
}

HubError absent(const ModelName& name, const std::string& cache, const std::string& reason) {
  return {Problem::absent, name.text() + ": not in the cache " + cache + reason +
                               "; bring it with: quire pull " + name.text()};
}

// Returns "ORG/NAME" of the folder "models--ORG--NAME"; nothing for other folders.
std::optional<std::string> repository_of(const std::string& folder) {
  if (!folder.starts_with(kPrefix)) return std::nullopt;
  std::string name = folder.substr(std::char_traits<char>::length(kPrefix));
  if (const size_t at = name.find("--"); at != std::string::npos) name.replace(at, 2, "/");
  try {
    return parse_model_name(name).repository;
  } catch (const HubError&) {
    return std::nullopt;
  }
}

// Returns the name to show of each commit: "main" or another branch or tag, otherwise the commit itself.
std::map<std::string, std::string> revisions_of(const RepositoryFolders& folders) {
  std::map<std::string, std::string> revisions;  // by commit
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folders.root + "/snapshots", error)) {
    const std::string commit = entry.path().filename().string();
    if (is_hex(commit, kCommitDigits)) revisions[commit] = commit;
  }
  for (const std::string& revision : names_below(folders.root + "/refs")) {
    const auto commit = commit_of(folders, revision);
    const auto known = commit ? revisions.find(*commit) : revisions.end();
    if (known != revisions.end() && (known->second == known->first || revision == "main"))
      known->second = revision;
  }
  return revisions;
}

void add_models_of(const std::string& cache, const std::string& repository,
                   std::vector<CachedModel>& models) {
  const RepositoryFolders folders = folders_of(cache, repository);
  for (const auto& [commit, revision] : revisions_of(folders)) {
    const std::vector<std::string> names = names_below(folders.snapshot(commit));
    for (const std::string& choice : list_choices(names)) {
      const ModelName name{.repository = repository, .choice = choice, .revision = revision};
      try {
        models.push_back(choose_cached(folders, name, commit, names));
      } catch (const HubError&) {
        continue;  // a split model of which files are missing
      }
    }
  }
}

}  // namespace

RepositoryFolders folders_of(const std::string& cache, const std::string& repository) {
  std::string name = repository;
  if (const size_t slash = name.find('/'); slash != std::string::npos) name.replace(slash, 1, "--");
  return {.root = cache + "/" + kPrefix + name, .locks = cache + "/.locks/" + kPrefix + name};
}

CachedModel find_cached_model(const std::string& cache, const ModelName& name) {
  const RepositoryFolders folders = folders_of(cache, name.repository);
  const auto commit = commit_of(folders, name.revision);
  if (!commit) throw absent(name, cache, "");
  const std::vector<std::string> names = names_below(folders.snapshot(*commit));
  if (list_choices(names).empty()) throw absent(name, cache, "");
  try {
    return choose_cached(folders, name, *commit, names);
  } catch (const HubError& error) {
    throw absent(name, cache, std::string(", ") + error.what());
  }
}

std::vector<CachedModel> list_cached_models(const std::string& cache) {
  std::vector<std::string> repositories;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(cache, error)) {
    if (const auto repository = repository_of(entry.path().filename().string()))
      repositories.push_back(*repository);
  }
  std::sort(repositories.begin(), repositories.end());
  std::vector<CachedModel> models;
  for (const std::string& repository : repositories) add_models_of(cache, repository, models);
  return models;
}

}  // namespace quire::hub
