// Contents of a repository as the hub lists them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quire::hub {

struct RepositoryFile {
  std::string path;
  int64_t size = 0;
  std::string sha256;    // of a large file (LFS); empty for a small one
  std::string git_sha1;  // name of a small file in git

  // Returns the name under which the cache keeps the content, the same as huggingface_hub's.
  const std::string& blob() const { return sha256.empty() ? git_sha1 : sha256; }
};

struct Repository {
  std::string commit;  // 40 hexadecimal digits
  std::vector<RepositoryFile> files;

  std::vector<std::string> names() const;
};

// Reads the answer to /api/models/ORG/NAME/revision/REVISION?blobs=true, which may be hostile. `where` names
// the hub in errors. Throws HubError with Problem::failed.
Repository parse_repository(std::string_view json, const std::string& where);

}  // namespace quire::hub
