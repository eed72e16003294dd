// Requests to a hub with redirects, retries and errors in plain words.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "capi/hub/http_client.h"
#include "capi/hub/model_name.h"
#include "capi/hub/repository.h"
#include "capi/hub/settings.h"

namespace quire::hub {

// Count of failures in a row, and the waits between them.
class RetryCounter {
 public:
  RetryCounter(int num_retries, const std::atomic<bool>& stop) : num_retries_(num_retries), stop_(stop) {}

  // Waits before the next attempt: as long as the hub demands, otherwise longer each time. Throws HubError
  // with the failure `what` if there were too many, or if the hub demands more than two minutes.
  void wait(int64_t demanded_seconds, const std::string& what);
  // Begins again, after an attempt that brought something.
  void forget() { num_failures_ = 0; }

 private:
  int num_retries_;
  int num_failures_ = 0;
  const std::atomic<bool>& stop_;
};

// Client of one thread.
class HubClient {
 public:
  HubClient(const HubSettings& settings, const std::atomic<bool>& stop);

  // Returns the list of files. Throws HubError if the hub refuses it, or after too many failures.
  Repository list(const ModelName& name);

  // Returns the address of a file at a commit.
  std::string address_of(const ModelName& name, const std::string& commit, const std::string& path) const;

  // Makes a request and follows redirects. The token goes to the hub's own origin only.
  HttpResponse fetch(const std::string& url, const std::optional<ByteRange>& range, BodySink& sink);

  // Returns whether the request may succeed later. Throws HubError for an answer that is final, such as 404.
  // `what` names the model or file.
  static bool is_passing(const HttpResponse& response, const std::string& what);
  // Returns the failure in words, for a message.
  static std::string failure_of(const HttpResponse& response, const std::string& what);

 private:
  const HubSettings& settings_;
  UrlParts hub_;
  const std::atomic<bool>& stop_;
  HttpClient http_;
};

}  // namespace quire::hub
