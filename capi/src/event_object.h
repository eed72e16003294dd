// Object of a quire_event.
#pragma once

#include <utility>

#include "capi/src/handle.h"
#include "core/engine/events/event.h"

namespace quire::capi {

struct EventObject final : Object {
  Event event;  // constant once the handle was returned
};

template <>
struct HandleTraits<quire_event> {
  using Object = EventObject;
  static constexpr HandleType type = HandleType::event;
};

// Handle created before its event is taken from a job or queue, so that a lack of memory cannot lose a taken
// event.
class PendingEvent {
 public:
  PendingEvent() : handle_(make_handle<quire_event>()) {}
  PendingEvent(const PendingEvent&) = delete;
  PendingEvent& operator=(const PendingEvent&) = delete;
  ~PendingEvent() {
    if (handle_ != nullptr) Pinned(handle_, "event").close("event");
  }

  // Returns the handle with its event; the caller then owns it.
  quire_event* give(Event&& event) noexcept {
    Pinned(handle_, "event")->event = std::move(event);
    return std::exchange(handle_, nullptr);
  }

 private:
  quire_event* handle_;
};

}  // namespace quire::capi
