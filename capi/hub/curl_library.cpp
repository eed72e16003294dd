#include "capi/hub/curl_library.h"

#include <algorithm>
#include <dlfcn.h>

#include "capi/hub/error.h"

namespace quire::hub {
namespace {

// Both have the same functions. Debian's libcurl4 is the first, and so is libcurl of Fedora and RHEL.
constexpr const char* kNames[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};

template <typename Function>
void find(void* library, const char* name, Function& function) {
  void* const symbol = dlsym(library, name);
  if (symbol == nullptr)
    throw HubError(Problem::failed,
                   std::string("libcurl.so.4 lacks ") + name + "; install libcurl 7.66 or newer");
  function = reinterpret_cast<Function>(symbol);
}

void* open_library() {
  std::string reason;
  for (const char* name : kNames) {
    if (void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL); library != nullptr) return library;
    if (reason.empty()) reason = dlerror();
  }
  throw HubError(Problem::failed,
                 "downloads need libcurl: install the package libcurl4 (Debian, Ubuntu) or "
                 "libcurl (Fedora, RHEL): " +
                     reason);
}

CurlLibrary open_and_find() {
  void* const library = open_library();
  CurlLibrary curl;
  find(library, "curl_global_init", curl.global_init);
  find(library, "curl_easy_init", curl.easy_init);
  find(library, "curl_easy_cleanup", curl.easy_cleanup);
  find(library, "curl_easy_reset", curl.easy_reset);
  find(library, "curl_easy_perform", curl.easy_perform);
  find(library, "curl_easy_setopt", curl.easy_setopt);
  find(library, "curl_easy_getinfo", curl.easy_getinfo);
  find(library, "curl_easy_strerror", curl.easy_strerror);
  find(library, "curl_slist_append", curl.slist_append);
  find(library, "curl_slist_free_all", curl.slist_free_all);
  find(library, "curl_easy_escape", curl.easy_escape);
  find(library, "curl_free", curl.free);
  if (curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
    throw HubError(Problem::failed, "libcurl cannot be initialised");
  return curl;
}

}  // namespace

const CurlLibrary& open_curl() {
  static const CurlLibrary curl = open_and_find();
  return curl;
}

UrlParts parse_url(const std::string& url) {
  const auto refuse = [] {
    return HubError(Problem::failed, "the hub answers with an address that is not http or https");
  };
  const auto lowered = [](std::string text) {
    std::transform(text.begin(), text.end(), text.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; });
    return text;
  };
  // libcurl and this function must agree on the host, so characters on which parsers differ are refused.
  const bool is_ambiguous =
      std::any_of(url.begin(), url.end(), [](char c) { return c <= 0x20 || c == 0x7f || c == '\\'; });
  const size_t end = url.find("://");
  if (end == std::string::npos || is_ambiguous) throw refuse();
  UrlParts parts;
  parts.scheme = lowered(url.substr(0, end));
  if (parts.scheme != "http" && parts.scheme != "https") throw refuse();
  const size_t begin = end + 3;
  parts.authority = lowered(url.substr(begin, url.find_first_of("/?#", begin) - begin));
  const bool is_plain = std::all_of(parts.authority.begin(), parts.authority.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_' || c == ':' ||
           c == '[' || c == ']';
  });
  if (parts.authority.empty() || !is_plain) throw refuse();
  const size_t bracket = parts.authority.find(']');  // at the end of an IPv6 address
  const size_t host_end = bracket == std::string::npos ? 0 : bracket;
  if (parts.authority.find(':', host_end) == std::string::npos)
    parts.authority += parts.scheme == "http" ? ":80" : ":443";
  return parts;
}

}  // namespace quire::hub
