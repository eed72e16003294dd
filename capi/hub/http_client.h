// One connection to a hub: requests with libcurl, one after another.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "capi/hub/curl_library.h"

namespace quire::hub {

struct ByteRange {
  int64_t first = 0;
  int64_t size = 0;
};

struct HttpRequest {
  std::string url;
  std::string token;               // empty means none
  std::optional<ByteRange> range;  // absent means the whole
};

struct HttpResponse {
  int status = 0;             // 0 if no answer came
  std::string broken;         // reason if the answer did not come whole; empty otherwise
  bool is_permanent = false;  // the reason will not pass by itself, such as an unknown certificate
  int64_t retry_seconds = 0;  // of Retry-After; 0 if the hub gave none
  std::string redirect;       // absolute address of a redirect; empty if there is none
  std::string content_range;  // header of this name
  std::string message;        // explanation that the hub gave, printable
  std::string url;            // address that answered, after redirects
};

// Receiver of the body of an answer with a status from 200 to 299.
class BodySink {
 public:
  virtual ~BodySink() = default;
  // Is called once before the body. Returns whether it is wanted.
  virtual bool begin(const HttpResponse& response) = 0;
  // Returns whether the transfer continues.
  virtual bool write(std::string_view bytes) = 0;
};

// Client of one thread.
class HttpClient {
 public:
  // `stop` ends a transfer that runs.
  HttpClient(int stall_seconds, const std::atomic<bool>& stop);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // Makes one request and follows no redirect. A transfer that the sink or `stop` has ended is broken.
  HttpResponse get(const HttpRequest& request, BodySink& sink);

  // Returns the text with everything but letters, digits and "-._~" as %XX.
  std::string escape(std::string_view text) const;

 private:
  const CurlLibrary& curl_;
  CURL* handle_;
  int stall_seconds_;
  const std::atomic<bool>& stop_;
};

}  // namespace quire::hub
