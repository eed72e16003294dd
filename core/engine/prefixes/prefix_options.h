// Options and statistics of the store for pages evicted from the prefix cache.
#pragma once

#include <cstdint>
#include <string>

namespace quire {

struct PrefixStoreOptions {
  uint64_t host_bytes = 0;  // host memory for evicted pages; 0: none
  std::string directory;    // for pages evicted from host memory, and for all pages at close; empty: none
  uint64_t directory_bytes = 0;  // limit for all page files in the directory
  // Everything besides its tokens that the content of a page depends on: the model, its formats, the device
  // that computed it. Files with another fingerprint are ignored.
  std::string fingerprint;

  bool is_enabled() const { return host_bytes > 0 || !directory.empty(); }
};

struct PrefixStats {
  uint64_t host_pages = 0;
  uint64_t host_bytes = 0;
  uint64_t file_pages = 0;
  uint64_t file_bytes = 0;
  uint64_t pages_restored = 0;  // read back into the cache
  uint64_t files_refused = 0;   // damaged, truncated, or with another content
};

}  // namespace quire
