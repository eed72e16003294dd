#include "capi/hub/http_client.h"

#include <algorithm>
#include <cstdlib>
#include <new>

#include "capi/hub/error.h"

namespace quire::hub {
namespace {

constexpr size_t kMaxUnwantedBytes = 64 << 10;  // of an answer that reports an error
constexpr size_t kMaxMessageBytes = 300;
constexpr size_t kMaxHeaderBytes = 4096;

struct Transfer {
  const CurlLibrary& curl;
  CURL* handle;
  BodySink& sink;
  const std::atomic<bool>& stop;
  HttpResponse response;
  size_t unwanted_bytes = 0;
  bool has_begun = false;
  bool is_refused = false;
};

std::string lower_case(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; });
  return out;
}

std::string printable(std::string_view text) {
  std::string out(text.substr(0, kMaxMessageBytes));
  std::replace_if(
      out.begin(), out.end(), [](char c) { return c < 0x20 || c == 0x7f; }, '?');
  return out;
}

size_t read_header(char* data, size_t size, size_t count, void* user) {
  Transfer& transfer = *static_cast<Transfer*>(user);
  std::string_view line(data, size * count);
  while (!line.empty() && (line.back() == '\r' || line.back() == '\n')) line.remove_suffix(1);
  if (line.starts_with("HTTP/")) {  // of a proxy, an interim answer, or the answer
    transfer.response.content_range.clear();
    transfer.response.message.clear();
    return size * count;
  }
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || line.size() > kMaxHeaderBytes) return size * count;
  const std::string name = lower_case(line.substr(0, colon));
  std::string_view value = line.substr(colon + 1);
  while (!value.empty() && value.front() == ' ') value.remove_prefix(1);
  if (name == "content-range") transfer.response.content_range = std::string(value);
  if (name == "x-error-message") transfer.response.message = printable(value);
  return size * count;
}

size_t read_body(char* data, size_t size, size_t count, void* user) {
  Transfer& transfer = *static_cast<Transfer*>(user);
  const std::string_view bytes(data, size * count);
  if (!transfer.has_begun) {
    long status = 0;
    transfer.curl.easy_getinfo(transfer.handle, CURLINFO_RESPONSE_CODE, &status);
    transfer.response.status = static_cast<int>(status);
  }
  if (transfer.response.status < 200 || transfer.response.status > 299) {
    transfer.unwanted_bytes += bytes.size();
    return transfer.unwanted_bytes > kMaxUnwantedBytes ? 0 : bytes.size();
  }
  if (!transfer.has_begun && !transfer.sink.begin(transfer.response)) transfer.is_refused = true;
  transfer.has_begun = true;
  if (!transfer.is_refused && !transfer.sink.write(bytes)) transfer.is_refused = true;
  return transfer.is_refused ? 0 : bytes.size();
}

int check_stop(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<Transfer*>(user)->stop.load() ? 1 : 0;
}

// Returns whether the same request would fail in the same way.
bool is_permanent(CURLcode code) {
  switch (code) {
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_COULDNT_RESOLVE_PROXY:
      return true;
    default:
      return false;
  }
}

std::string reason_of(const CurlLibrary& curl, CURLcode code, const char* details) {
  std::string reason = printable(*details != '\0' ? details : curl.easy_strerror(code));
  if (code == CURLE_SSL_CACERT_BADFILE) reason += "; install the package ca-certificates";
  return reason;
}

// Copies what is known after the transfer into the response.
void finish(Transfer& transfer, CURLcode code, const char* details) {
  HttpResponse& response = transfer.response;
  long status = 0;
  transfer.curl.easy_getinfo(transfer.handle, CURLINFO_RESPONSE_CODE, &status);
  response.status = static_cast<int>(status);
  curl_off_t retry = 0;
  transfer.curl.easy_getinfo(transfer.handle, CURLINFO_RETRY_AFTER, &retry);
  response.retry_seconds = retry;
  char* redirect = nullptr;
  transfer.curl.easy_getinfo(transfer.handle, CURLINFO_REDIRECT_URL, &redirect);
  if (redirect != nullptr && status >= 300 && status < 400) response.redirect = redirect;
  const bool is_error_answer = status >= 300 && transfer.unwanted_bytes > kMaxUnwantedBytes;
  if (code == CURLE_OK || is_error_answer) return;
  response.broken = reason_of(transfer.curl, code, details);
  response.is_permanent = is_permanent(code);
}

}  // namespace

HttpClient::HttpClient(int stall_seconds, const std::atomic<bool>& stop)
    : curl_(open_curl()), handle_(curl_.easy_init()), stall_seconds_(stall_seconds), stop_(stop) {
  if (handle_ == nullptr) throw std::bad_alloc();
}

HttpClient::~HttpClient() {
  curl_.easy_cleanup(handle_);
}

HttpResponse HttpClient::get(const HttpRequest& request, BodySink& sink) {
  char details[CURL_ERROR_SIZE] = "";
  Transfer transfer{.curl = curl_, .handle = handle_, .sink = sink, .stop = stop_, .response = {}};
  transfer.response.url = request.url;
  curl_.easy_reset(handle_);
  curl_.easy_setopt(handle_, CURLOPT_URL, request.url.c_str());
  curl_.easy_setopt(handle_, CURLOPT_USERAGENT, "quire");
  curl_.easy_setopt(handle_, CURLOPT_NOSIGNAL, 1L);
  curl_.easy_setopt(handle_, CURLOPT_FOLLOWLOCATION, 0L);
  curl_.easy_setopt(handle_, CURLOPT_CONNECTTIMEOUT, static_cast<long>(stall_seconds_));
  curl_.easy_setopt(handle_, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_.easy_setopt(handle_, CURLOPT_LOW_SPEED_TIME, static_cast<long>(stall_seconds_));
  curl_.easy_setopt(handle_, CURLOPT_ERRORBUFFER, details);
  curl_.easy_setopt(handle_, CURLOPT_HEADERFUNCTION, read_header);
  curl_.easy_setopt(handle_, CURLOPT_HEADERDATA, &transfer);
  curl_.easy_setopt(handle_, CURLOPT_WRITEFUNCTION, read_body);
  curl_.easy_setopt(handle_, CURLOPT_WRITEDATA, &transfer);
  curl_.easy_setopt(handle_, CURLOPT_NOPROGRESS, 0L);
  curl_.easy_setopt(handle_, CURLOPT_XFERINFOFUNCTION, check_stop);
  curl_.easy_setopt(handle_, CURLOPT_XFERINFODATA, &transfer);
  if (const char* file = std::getenv("SSL_CERT_FILE"); file != nullptr && *file != '\0')
    curl_.easy_setopt(handle_, CURLOPT_CAINFO, file);
  curl_slist* headers = nullptr;
  if (!request.token.empty())
    headers = curl_.slist_append(headers, ("Authorization: Bearer " + request.token).c_str());
  curl_.easy_setopt(handle_, CURLOPT_HTTPHEADER, headers);
  const ByteRange range = request.range.value_or(ByteRange{});
  const std::string range_text =
      std::to_string(range.first) + "-" + std::to_string(range.first + range.size - 1);
  if (request.range) curl_.easy_setopt(handle_, CURLOPT_RANGE, range_text.c_str());
  const CURLcode code = curl_.easy_perform(handle_);
  finish(transfer, code, details);
  curl_.easy_setopt(handle_, CURLOPT_ERRORBUFFER, nullptr);
  curl_.slist_free_all(headers);
  return std::move(transfer.response);
}

std::string HttpClient::escape(std::string_view text) const {
  char* const escaped = curl_.easy_escape(handle_, text.data(), static_cast<int>(text.size()));
  if (escaped == nullptr) throw std::bad_alloc();
  std::string out(escaped);
  curl_.free(escaped);
  return out;
}

}  // namespace quire::hub
