// What a download reports while it runs.
#pragma once

#include <cstdint>
#include <functional>

#include "capi/hub/repository.h"

namespace quire::hub {

struct DownloadProgress {
  int64_t done_bytes = 0;    // bytes of earlier downloads included
  int64_t total_bytes = 0;   // of all files
  bool is_checking = false;  // everything has arrived, and digests are being computed
};

// Is called often by the thread that waits for the download.
using ShowProgress = std::function<void(const DownloadProgress&)>;
// Is called with each file that is complete and checked, by one thread at a time.
using ShowFile = std::function<void(const RepositoryFile&)>;

}  // namespace quire::hub
