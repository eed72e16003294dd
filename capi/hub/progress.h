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

// Called often by the thread that waits for the download.
using ShowProgress = std::function<void(const DownloadProgress&)>;
// Called by the same thread with each file that is complete and checked.
using ShowFile = std::function<void(const RepositoryFile&)>;

}  // namespace quire::hub
