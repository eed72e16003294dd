#include "capi/hub/hub_client.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "capi/hub/error.h"

namespace quire::hub {
namespace {

constexpr int kMaxRedirects = 5;
constexpr int64_t kMaxDemandedSeconds = 120;
constexpr size_t kMaxListBytes = 64U << 20;
constexpr std::chrono::milliseconds kFirstWait(250);
constexpr std::chrono::milliseconds kLongestWait(8000);

void check_not_stopped(const std::atomic<bool>& stop) {
  if (stop.load())
    throw HubError(Problem::interrupted, "interrupted; the same command continues the download");
}

// Text of a limited size.
class TextSink final : public BodySink {
 public:
  bool begin(const HttpResponse& response) override {
    text_.clear();
    return response.status == 200;
  }
  bool write(std::string_view bytes) override {
    is_too_large_ = text_.size() + bytes.size() > kMaxListBytes;
    if (!is_too_large_) text_.append(bytes);
    return !is_too_large_;
  }
  const std::string& text() const { return text_; }
  bool is_too_large() const { return is_too_large_; }

 private:
  std::string text_;
  bool is_too_large_ = false;
};

}  // namespace

void RetryCounter::wait(int64_t demanded_seconds, const std::string& what) {
  check_not_stopped(stop_);
  if (demanded_seconds > kMaxDemandedSeconds)
    throw HubError(Problem::failed, what + "; the hub asks to wait " + std::to_string(demanded_seconds) +
                                        " seconds: try again later");
  if (num_failures_ >= num_retries_)
    throw HubError(Problem::failed, what + "; given up after " + std::to_string(num_retries_ + 1) +
                                        " attempts; the same command continues the download");
  std::chrono::milliseconds left = std::min(kLongestWait, kFirstWait * (1 << std::min(num_failures_, 10)));
  if (demanded_seconds > 0) left = std::chrono::seconds(demanded_seconds);
  ++num_failures_;
  constexpr std::chrono::milliseconds kSlice(50);
  for (; left.count() > 0; left -= kSlice) {
    check_not_stopped(stop_);
    std::this_thread::sleep_for(std::min(left, kSlice));
  }
}

HubClient::HubClient(const HubSettings& settings, const std::atomic<bool>& stop)
    : settings_(settings),
      hub_(parse_url(settings.endpoint)),
      stop_(stop),
      http_(settings.stall_seconds, stop) {}

std::string HubClient::address_of(const ModelName& name, const std::string& commit,
                                  const std::string& path) const {
  std::string url = settings_.endpoint + "/" + name.repository + "/resolve/" + http_.escape(commit);
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    url += "/" + http_.escape(std::string_view(path).substr(begin, end - begin));
    begin = end + 1;
  }
  return url;
}

HttpResponse HubClient::fetch(const std::string& url, const std::optional<ByteRange>& range, BodySink& sink) {
  HttpRequest request;
  request.url = url;
  request.range = range;
  for (int hop = 0; hop <= kMaxRedirects; ++hop) {
    const UrlParts target = parse_url(request.url);
    request.token = target == hub_ ? settings_.token : std::string();
    HttpResponse response = http_.get(request, sink);
    check_not_stopped(stop_);
    if (response.redirect.empty()) return response;
    if (target.scheme == "https" && parse_url(response.redirect).scheme != "https")
      throw HubError(Problem::failed, "the hub redirects from https to http; this is refused");
    request.url = response.redirect;
  }
  throw HubError(Problem::failed, "the hub redirects more than " + std::to_string(kMaxRedirects) + " times");
}

bool HubClient::is_passing(const HttpResponse& response, const std::string& what) {
  if (!response.broken.empty() && response.is_permanent)
    throw HubError(Problem::failed, failure_of(response, what));
  switch (response.status) {
    case 408:
    case 429:
    case 500:
    case 502:
    case 503:
    case 504:
      return true;
    default:
      break;
  }
  if (response.status >= 300) throw HubError(Problem::failed, failure_of(response, what));
  return !response.broken.empty();
}

std::string HubClient::failure_of(const HttpResponse& response, const std::string& what) {
  const std::string message = response.message.empty() ? "" : " (" + response.message + ")";
  switch (response.status) {
    case 401:
      return what +
             ": the hub refuses access (401): it does not exist, or is private or gated; check the name, and "
             "set HF_TOKEN to a token of your account" +
             message;
    case 403:
      return what +
             ": your account has no access (403): accept the terms on its page of the hub, or check the "
             "rights "
             "of HF_TOKEN" +
             message;
    case 404:
      return what + ": the hub has no such model, revision or file (404)" + message;
    case 429:
      return what + ": the hub limits the number of requests (429)" + message;
    default:
      break;
  }
  if (!response.broken.empty()) return what + ": the connection broke: " + response.broken;
  return what + ": the hub answers with status " + std::to_string(response.status) + message;
}

Repository HubClient::list(const ModelName& name) {
  const std::string what = ModelName{name.repository, "", name.revision}.text();
  const std::string url = settings_.endpoint + "/api/models/" + name.repository + "/revision/" +
                          http_.escape(name.revision) + "?blobs=true";
  RetryCounter retries(settings_.num_retries, stop_);
  for (;;) {
    TextSink sink;
    const HttpResponse response = fetch(url, std::nullopt, sink);
    if (sink.is_too_large())
      throw HubError(Problem::failed, what + ": the list of files is larger than 64 MiB");
    if (!is_passing(response, what)) return parse_repository(sink.text(), what);
    retries.wait(response.retry_seconds, failure_of(response, what));
  }
}

}  // namespace quire::hub
