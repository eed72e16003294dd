// The object of a quire_event.
#pragma once

#include <utility>

#include "capi/src/handle.h"
#include "core/engine/events/event.h"

namespace quire::capi {

struct EventObject final : Object {
  Event event;  // constant once the handle was given out
};

template <>
struct HandleTraits<quire_event> {
  using Object = EventObject;
  static constexpr HandleType type = HandleType::event;
};

// A handle made before its event is taken from a job or queue, so that a taken event cannot be lost for want
// of memory.
class PendingEvent {
 public:
  PendingEvent() : handle_(make_handle<quire_event>()) {}
  PendingEvent(const PendingEvent&) = delete;
  PendingEvent& operator=(const PendingEvent&) = delete;
  ~PendingEvent() {
    if (handle_ != nullptr) Pinned(handle_, "event").close("event");
  }

  // The handle, now the caller's.
  quire_event* give(Event&& event) noexcept {
    Pinned(handle_, "event")->event = std::move(event);
    return std::exchange(handle_, nullptr);
  }

 private:
  quire_event* handle_;
};

}  // namespace quire::capi
