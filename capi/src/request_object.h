// What stands behind a quire_job_request.
#pragma once

#include <memory>
#include <string>

#include "capi/src/options_objects.h"
#include "capi/src/runtime_object.h"
#include "core/engine/events/event_queue.h"
#include "core/engine/jobs/job_request.h"

namespace quire::capi {

// A queue together with the runtime it belongs to.
struct QueueShare {
  std::shared_ptr<RuntimeShare> runtime;
  std::shared_ptr<EventQueue> events;
};

struct RequestSettings {
  JobRequest job;  // without its prompt where that is text, and without its queue
  std::string prompt_text;
  bool prompt_is_text = false;
  bool add_special = true;
  bool parse_special = false;
  bool max_new_tokens_set = false;
  QueueShare queue;
};

template <>
struct HandleTraits<quire_job_request> {
  using Object = OptionsObject<RequestSettings>;
  static constexpr HandleType type = HandleType::job_request;
};

}  // namespace quire::capi
