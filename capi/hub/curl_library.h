// libcurl, opened when it is first needed, so that the command runs on a machine without it.
#pragma once

#include <string>

#define CURL_DISABLE_DEPRECATION
#include <curl/curl.h>

namespace quire::hub {

// The functions that the client uses, by libcurl's names without "curl_".
struct CurlLibrary {
  CURLcode (*global_init)(long flags) = nullptr;
  CURL* (*easy_init)() = nullptr;
  void (*easy_cleanup)(CURL*) = nullptr;
  void (*easy_reset)(CURL*) = nullptr;
  CURLcode (*easy_perform)(CURL*) = nullptr;
  CURLcode (*easy_setopt)(CURL*, CURLoption, ...) = nullptr;
  CURLcode (*easy_getinfo)(CURL*, CURLINFO, ...) = nullptr;
  const char* (*easy_strerror)(CURLcode) = nullptr;
  curl_slist* (*slist_append)(curl_slist*, const char*) = nullptr;
  void (*slist_free_all)(curl_slist*) = nullptr;
  char* (*easy_escape)(CURL*, const char*, int) = nullptr;
  void (*free)(void*) = nullptr;
};

// Returns the opened library, which is never closed. Call it first before other threads start: its setup is
// not safe beside them. Throws HubError that names the missing package.
const CurlLibrary& open_curl();

// The origin of an address: what decides whether a token may be sent to it.
struct UrlParts {
  std::string scheme;     // in lower case
  std::string authority;  // "host:port" in lower case, with the default port of the scheme

  bool operator==(const UrlParts&) const = default;
};

// Returns the parts of an absolute http or https address. Throws HubError for any other, and for one with a
// user name.
UrlParts parse_url(const std::string& url);

}  // namespace quire::hub
