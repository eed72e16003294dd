// The cache of a hub's files in the layout of huggingface_hub:
//
//   models--ORG--NAME/blobs/DIGEST          contents
//   models--ORG--NAME/snapshots/COMMIT/PATH links to them
//   models--ORG--NAME/refs/REVISION         the commit of a branch or tag
//   .locks/models--ORG--NAME/DIGEST.lock    a lock during the download
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "capi/hub/choose_files.h"
#include "capi/hub/model_name.h"

namespace quire::hub {

// Folders of one repository.
struct RepositoryFolders {
  std::string root;   // CACHE/models--ORG--NAME
  std::string locks;  // CACHE/.locks/models--ORG--NAME

  std::string blob(const std::string& digest) const { return root + "/blobs/" + digest; }
  std::string snapshot(const std::string& commit) const { return root + "/snapshots/" + commit; }
  std::string reference(const std::string& revision) const { return root + "/refs/" + revision; }
};

RepositoryFolders folders_of(const std::string& cache, const std::string& repository);

// Model in the cache.
struct CachedModel {
  ModelName name;
  std::string commit;
  std::string path;  // what --model takes
  int64_t bytes = 0;
};

// Finds a model by its name. Throws HubError with Problem::absent if the cache lacks it, or Problem::failed
// if several match.
CachedModel find_cached_model(const std::string& cache, const ModelName& name);

// Returns all models of the cache, by name. A cache that does not exist has none.
std::vector<CachedModel> list_cached_models(const std::string& cache);

}  // namespace quire::hub
