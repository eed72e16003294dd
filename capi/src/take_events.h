// Moves events from a job or a queue into handles of the caller.
#pragma once

#include <vector>

#include "capi/src/arguments.h"
#include "capi/src/event_object.h"
#include "core/base/wait.h"

namespace quire::capi {

// Returns the next event of a job or queue, or nullptr; then `end` has the reason.
template <typename Source>
quire_event* take_event(Source& source, const Wait& wait, WaitEnd& end) {
  PendingEvent pending;
  std::vector<Event> taken;
  taken.reserve(1);
  end = source.drain(wait, 1, taken);
  return end == WaitEnd::ready ? pending.give(std::move(taken.front())) : nullptr;
}

// Takes up to max_events events, waiting only for the first. A failure after the first does not lose the
// events taken. Returns their number, or the reason why there are none.
template <typename Source>
int64_t take_events(Source& source, const Wait& wait, quire_event** out_events, size_t max_events) {
  WaitEnd end = WaitEnd::timeout;
  quire_event* event = take_event(source, wait, end);
  if (event == nullptr) return wait_result(end);
  size_t count = 0;
  try {
    for (; event != nullptr; event = count < max_events ? take_event(source, Duration{0}, end) : nullptr) {
      out_events[count++] = event;
    }
  } catch (...) {  // the next call reports the failure
  }
  return static_cast<int64_t>(count);
}

inline void check_events_argument(quire_event** out_events, size_t max_events) {
  const OutArgument<quire_event*> out(out_events, max_events, "out_events");
  if (max_events == 0)
    throw Error(ErrorCode::invalid_argument, "max_events: 0 is not 1 or more").at("max_events");
}

// Returns the destination of one event, set to NULL until an event is taken.
inline quire_event*& event_argument(quire_event** out_event) {
  if (out_event == nullptr)
    throw Error(ErrorCode::invalid_argument, "out_event: NULL; pass a place for the event").at("out_event");
  return *out_event = nullptr;
}

}  // namespace quire::capi
