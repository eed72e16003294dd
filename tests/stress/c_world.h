// Initial state of every schedule of the C interface: a handle of each type, used by two threads, each of
// which may free any handle while the other uses it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <quire/quire.h>

#include "capi/src/cache_object.h"
#include "tests/capi/capi_fixture.h"

namespace quire::testing {

// Effects of a call on other calls: the codes that these may then return.
enum Effect : uint32_t {
  kFrees = 1,           // QUIRE_ERROR_BAD_HANDLE
  kCloses = 2,          // QUIRE_ERROR_CLOSED
  kCancels = 4,         // QUIRE_ERROR_CANCELLED
  kMisses = 8,          // QUIRE_ERROR_NOT_FOUND: there is nothing to pin
  kOwnRoots = 16,       // frees the runtime or the model, so the schedule needs its own
  kTakesEvents = 32,    // events of other jobs arrive in the common queue
  kEndsAnswers = 64,    // QUIRE_ERROR_INVALID_ARGUMENT: the parsed response has ended
  kHasNoNetwork = 128,  // QUIRE_ERROR_UNSUPPORTED: the model has no draft network
};

// A response in the dialect hermes, with more than three events.
constexpr std::string_view kAnswer = "<think>hm</think><tool_call>{\"name\": \"go\", \"arguments\": {}}";

// Lives as long as the test: the model of all schedules that do not free it, and the text of a job alone.
class Roots {
 public:
  Roots();
  World world;
  Collected canary;  // output of a job with make_canary
  static OwnedRequest make_canary() { return make_request("canary", 6); }
};

struct CWorld {
  // `effects` are those of both calls.
  CWorld(const Roots& roots, uint32_t effects);

  // Checks the error that a call wrote, and frees it.
  void judge(const char* call, quire_error* written) const;
  // Counts the end of the common job among the received events.
  void note(quire_event* event);
  // Called after both calls: runs the job to its end, checks the remaining state, and frees all handles.
  void finish(const Roots& roots);

  const uint32_t effects;
  int32_t allowed = 0;  // bits of QUIRE_ERROR_*
  OwnedRuntime own_runtime;
  OwnedModel own_model;
  quire_runtime* runtime = nullptr;
  quire_model* model = nullptr;
  quire_runtime_options* runtime_options = nullptr;
  quire_model_options* model_options = nullptr;
  quire_cache_options* cache_options = nullptr;
  quire_job_request* request = nullptr;
  quire_cache* cache = nullptr;
  quire_stats* stats = nullptr;
  quire_queue* queue = nullptr;
  quire_event* event = nullptr;
  quire_cancel* cancel = nullptr;
  quire_constraint* constraint = nullptr;
  quire_matcher* matcher = nullptr;
  quire_chat_template* chat = nullptr;
  quire_alias* alias = nullptr;  // not set to a cache
  quire_response_parser* parser = nullptr;
  quire_error* error = nullptr;
  quire_job* job = nullptr;
  int64_t job_id = 0;
  std::atomic<int32_t> num_last_events{0};

 private:
  void finish_job();
  void check_figures();
  void check_canary(const Roots& roots);
  std::weak_ptr<const capi::CacheShare> share_;
};

// Makes calls on one CWorld and checks each of them.
class Calls {
 public:
  Calls(CWorld& world, const char* entry) : world_(world), entry_(entry) {}

  template <typename Result, typename... Parameters, typename... Arguments>
  Result operator()(Result (*function)(Parameters...), Arguments... arguments) const {
    quire_error* error = nullptr;
    const Result result = function(arguments..., &error);
    world_.judge(entry_, error);
    return result;
  }

 private:
  CWorld& world_;
  const char* const entry_;
};

using CCall = void (*)(CWorld& world, const Calls& call);
struct CEntryPoint {
  const char* name;
  uint32_t effects;
  CCall call;
};

const std::vector<CEntryPoint>& c_entry_points();

}  // namespace quire::testing
