// Object of a quire_job_request.
#pragma once

#include <memory>
#include <vector>

#include "capi/src/options_objects.h"
#include "capi/src/runtime_object.h"
#include "core/engine/events/event_queue.h"
#include "core/engine/requests/request_spec.h"

namespace quire::capi {

// A queue and the runtime that it belongs to.
struct QueueShare {
  std::shared_ptr<RuntimeShare> runtime;
  std::shared_ptr<EventQueue> events;
};

// Operations that a setting applies to, as bits.
struct Counts {
  static constexpr uint32_t generate = 1, score = 2, warm = 4, embed = 8;  // in the order of QUIRE_JOB_KIND_*
  static constexpr uint32_t any_kind = generate | score | warm | embed;
  static constexpr uint32_t fork = 16;
  static constexpr uint32_t always = any_kind | fork;
  // Ways to read a request: for its own kind, or only for its prompt.
  static constexpr uint32_t for_kind = 0, prompt_alone = UINT32_MAX;
};

// A setting that was made.
struct Setting {
  const char* name;
  uint32_t counts;
  const char* parameter = name;  // in errors
};

// A request, and the settings that were made.
struct RequestSettings : RequestSpec {
  std::vector<Setting> made;
  bool max_new_tokens_set = false;
  QueueShare shared_queue;
};

template <>
struct HandleTraits<quire_job_request> {
  using Object = OptionsObject<RequestSettings>;
  static constexpr HandleType type = HandleType::job_request;
};

}  // namespace quire::capi
