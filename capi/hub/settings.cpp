#include "capi/hub/settings.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <iterator>

#include "capi/hub/error.h"

namespace quire::hub {
namespace {

constexpr const char* kPublicHub = "https://huggingface.co";
constexpr int kStallSeconds = 30;
constexpr int kMaxStallSeconds = 3600;
constexpr size_t kMaxTokenBytes = 4096;

// Returns the value of the first variable that is set and not empty.
std::string variable(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const char* value = std::getenv(name);
    if (value != nullptr && *value != '\0') return value;
  }
  return {};
}

bool is_on(std::string value) {
  std::transform(value.begin(), value.end(), value.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return value == "1" || value == "ON" || value == "YES" || value == "TRUE";
}

std::string with_home(const std::string& path) {
  if (path != "~" && !path.starts_with("~/")) return path;
  return variable({"HOME"}) + path.substr(1);
}

std::string home_of_hub() {
  if (const std::string home = variable({"HF_HOME"}); !home.empty()) return with_home(home);
  if (const std::string cache = variable({"XDG_CACHE_HOME"}); !cache.empty())
    return with_home(cache) + "/huggingface";
  return with_home("~/.cache/huggingface");
}

std::string trimmed(const std::string& text) {
  constexpr const char* kSpace = " \t\r\n";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

// The token becomes a line of a request, so it must not end that line.
std::string checked_token(const std::string& token, const std::string& source) {
  const bool is_plain = token.size() <= kMaxTokenBytes &&
                        std::all_of(token.begin(), token.end(), [](char c) { return c > 0x20 && c < 0x7f; });
  if (!is_plain) throw HubError(Problem::usage, source + ": no token of a hub; it is one word like hf_...");
  return token;
}

std::string token_from_environment() {
  if (const std::string token = trimmed(variable({"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"})); !token.empty())
    return checked_token(token, "HF_TOKEN");
  if (is_on(variable({"HF_HUB_DISABLE_IMPLICIT_TOKEN"}))) return {};
  std::string path = with_home(variable({"HF_TOKEN_PATH"}));
  if (path.empty()) path = home_of_hub() + "/token";
  std::ifstream file(path, std::ios::binary);
  if (!file) return {};
  std::string text(kMaxTokenBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  return checked_token(trimmed(text), path);
}

std::string endpoint_from_environment() {
  std::string endpoint = variable({"HF_ENDPOINT"});
  if (endpoint.empty()) return kPublicHub;
  while (endpoint.ends_with('/')) endpoint.pop_back();
  const bool has_scheme = endpoint.starts_with("https://") || endpoint.starts_with("http://");
  const bool is_plain =
      std::all_of(endpoint.begin(), endpoint.end(), [](char c) { return c > 0x20 && c < 0x7f; });
  if (!has_scheme || !is_plain || endpoint.find_first_of("?#") != std::string::npos)
    throw HubError(Problem::usage, "HF_ENDPOINT: no address; write for example " + std::string(kPublicHub));
  return endpoint;
}

int stall_seconds_from_environment() {
  const std::string text = variable({"HF_HUB_DOWNLOAD_TIMEOUT"});
  if (text.empty()) return kStallSeconds;
  int seconds = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size() || seconds < 1 ||
      seconds > kMaxStallSeconds)
    throw HubError(Problem::usage, "HF_HUB_DOWNLOAD_TIMEOUT: must be seconds from 1 to " +
                                       std::to_string(kMaxStallSeconds) + ", not " + text);
  return seconds;
}

}  // namespace

std::string cache_from_environment() {
  const std::string cache = variable({"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"});
  return cache.empty() ? home_of_hub() + "/hub" : with_home(cache);
}

HubSettings settings_from_environment() {
  return {.endpoint = endpoint_from_environment(),
          .token = token_from_environment(),
          .cache = cache_from_environment(),
          .offline = is_on(variable({"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"})),
          .stall_seconds = stall_seconds_from_environment()};
}

}  // namespace quire::hub
