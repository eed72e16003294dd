// What becomes of the pages of prefixes that leave a cache.
#pragma once

#include <cstdint>
#include <string>

namespace quire {

struct PrefixStoreOptions {
  uint64_t host_bytes = 0;       // of host memory for pages that left; 0: none
  std::string directory;         // for those that leave host memory, and at close for all; empty: none
  uint64_t directory_bytes = 0;  // that all pages there may take
  // All that the numbers of a page depend on besides its tokens: the model, its formats, who computed them.
  // Files of others are not looked at.
  std::string fingerprint;

  bool keeps_any() const { return host_bytes > 0 || !directory.empty(); }
};

struct PrefixStats {
  uint64_t host_pages = 0;
  uint64_t host_bytes = 0;
  uint64_t file_pages = 0;
  uint64_t file_bytes = 0;
  uint64_t pages_restored = 0;  // came back to the cache
  uint64_t files_refused = 0;   // damaged, cut short, or of something else
};

}  // namespace quire
