// Brings a model from a hub into the cache.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "capi/hub/cache.h"
#include "capi/hub/progress.h"
#include "capi/hub/settings.h"

namespace quire::hub {

// Receiver of what happens.
struct PullObserver {
  ShowProgress show_progress;
  ShowFile show_file;
  std::function<void(const std::string& line)> show_note;
};

struct PullOptions {
  bool verify = false;  // compute the digests of files that are there already
};

struct PulledModel {
  CachedModel model;
  int64_t num_files = 0;
  int64_t num_downloaded_files = 0;
  int64_t downloaded_bytes = 0;  // of those files
};

// Brings what is missing of a model. The snapshot and the revision appear in the cache only when every file
// is complete and checked. Throws HubError; what has arrived remains for the next call.
PulledModel pull_model(const HubSettings& settings, const ModelName& name, const PullOptions& options,
                       const PullObserver& observer, const std::atomic<bool>& stop);

}  // namespace quire::hub
