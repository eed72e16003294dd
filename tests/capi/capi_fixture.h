// Shared by the tests of the C interface: owning handles, error reports, and a model so small that a job
// takes milliseconds.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <quire/quire.h>

#include "tests/support/temp_directory.h"

namespace quire::testing {

// An owning handle. If freeing fails, the test fails.
template <typename Handle, int32_t (*Free)(Handle*, quire_error**)>
class Owned {
 public:
  Owned() = default;
  explicit Owned(Handle* handle) : handle_(handle) {}
  Owned(Owned&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owned() { reset(); }
  void reset() {
    EXPECT_EQ(Free(std::exchange(handle_, nullptr), nullptr), 1) << "freeing NULL succeeds too";
  }
  Handle* get() const { return handle_; }
  Handle* release() { return std::exchange(handle_, nullptr); }
  explicit operator bool() const { return handle_ != nullptr; }

 private:
  Handle* handle_ = nullptr;
};

using OwnedRuntimeOptions = Owned<quire_runtime_options, quire_runtime_options_free>;
using OwnedModelOptions = Owned<quire_model_options, quire_model_options_free>;
using OwnedCacheOptions = Owned<quire_cache_options, quire_cache_options_free>;
using OwnedRequest = Owned<quire_job_request, quire_job_request_free>;
using OwnedRuntime = Owned<quire_runtime, quire_runtime_free>;
using OwnedModel = Owned<quire_model, quire_model_free>;
using OwnedCache = Owned<quire_cache, quire_cache_free>;
using OwnedStats = Owned<quire_stats, quire_stats_free>;
using OwnedJob = Owned<quire_job, quire_job_free>;
using OwnedQueue = Owned<quire_queue, quire_queue_free>;
using OwnedEvent = Owned<quire_event, quire_event_free>;
using OwnedPlan = Owned<quire_plan, quire_plan_free>;
using OwnedCancel = Owned<quire_cancel, quire_cancel_free>;
using OwnedConstraint = Owned<quire_constraint, quire_constraint_free>;
using OwnedMatcher = Owned<quire_matcher, quire_matcher_free>;
using OwnedAlias = Owned<quire_alias, quire_alias_free>;
using OwnedChatTemplate = Owned<quire_chat_template, quire_chat_template_free>;
using OwnedResponseParser = Owned<quire_response_parser, quire_response_parser_free>;

// The error of one call. `call(..., report)` passes it to the call.
class Report {
 public:
  Report() = default;
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;
  ~Report() { quire_error_free(error_); }
  // Clears the error and returns its address for the next call.
  quire_error** out() {
    quire_error_free(std::exchange(error_, nullptr));
    return &error_;
  }
  int32_t code() const { return quire_error_code(error_); }
  // Allocates nothing.
  bool has_message() const {
    size_t length = 0;
    quire_error_message(error_, &length);
    return length > 0;
  }
  std::string message() const {
    size_t length = 0;
    const char* const text = quire_error_message(error_, &length);
    return {text, length};
  }
  std::string parameter() const {
    size_t length = 0;
    const char* const text = quire_error_parameter(error_, &length);
    return {text, length};
  }

 private:
  quire_error* error_ = nullptr;
};

// Returns the path of a model directory with random weights for 160 tokens. Its tokenizer has 259 tokens, of
// which the model covers those of ASCII. The directory is created once and removed when the process ends.
const std::string& tiny_model_path();

// Returns the path of the packaged model: 15 million weights, a tokenizer of 32000 tokens.
std::string embedded_model_path();

OwnedRuntime make_runtime();
OwnedModel load_model(quire_runtime* runtime, const std::string& path = tiny_model_path(),
                      int32_t scope = QUIRE_MODEL_SCOPE_FULL);
// Creates a cache with pages of 4 tokens, 4096 tokens, 16 jobs at once.
OwnedCache make_cache(quire_model* model);
// Creates a greedy request that ends only at max_new_tokens.
OwnedRequest make_request(std::string_view prompt, int32_t max_new_tokens);

// Creates a request with only a prompt, for every kind of job.
OwnedRequest make_prompt(std::string_view prompt);

// All objects that a job needs.
struct World {
  OwnedRuntime runtime = make_runtime();
  OwnedModel model = load_model(runtime.get());
  OwnedCache cache = make_cache(model.get());
};

// Returns the next event of a job or queue. Returns nullptr if none came; then `end`, if not null, receives
// the reason.
quire_event* next_event(quire_job* job, int64_t timeout_ns, quire_error** error, int32_t* end = nullptr);
quire_event* next_event(quire_queue* queue, int64_t timeout_ns, quire_error** error, int32_t* end = nullptr);
// Creates a score request for these tokens.
OwnedRequest request_of_tokens(const int32_t* tokens, size_t num_tokens);

// All text and tokens of a job, taken with quire_job_poll until its last event.
struct Collected {
  std::string text;
  std::vector<int32_t> tokens;
  int32_t last_type = 0;
  int32_t finish_reason = 0;
  int32_t error_code = 0;
  int num_last_events = 0;
};
Collected collect(quire_job* job);
void add_event(Collected& collected, quire_event* event);

// Returns the number of live handles of all types except errors.
int64_t num_live_handles();

}  // namespace quire::testing
