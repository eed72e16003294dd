// Settings of the hub client, from the environment variables of huggingface_hub.
#pragma once

#include <string>

namespace quire::hub {

struct HubSettings {
  std::string endpoint;   // "https://huggingface.co", without a slash at its end
  std::string token;      // empty means none
  std::string cache;      // the folder of all repositories
  bool offline = false;   // no request may be made
  int stall_seconds = 0;  // a connection without data for so long is closed
  int num_connections = 8;
  int num_retries = 5;  // in a row without any progress
};

// Reads HF_ENDPOINT, HF_TOKEN, HF_TOKEN_PATH, HF_HOME, HF_HUB_CACHE, HF_HUB_OFFLINE, HF_HUB_DOWNLOAD_TIMEOUT
// and the older names of some. Throws HubError with Problem::usage that names a wrong one.
HubSettings settings_from_environment();

// Returns the folder of all repositories alone, without errors about the others.
std::string cache_from_environment();

}  // namespace quire::hub
