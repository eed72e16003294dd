#include <quire/queue.h>

#include "capi/src/arguments.h"
#include "capi/src/callback_scope.h"
#include "capi/src/event_object.h"
#include "capi/src/guard.h"
#include "capi/src/queue_object.h"

using namespace quire::capi;

namespace {

// The next event, waited for; nullptr where the time is over. Throws where the queue is closed and empty.
quire_event* take_event(quire::EventQueue& events, int64_t timeout_ns) {
  PendingEvent pending;
  for (;;) {
    // What came before the close is still given out, so a queue that closes while we wait is asked once more.
    const bool closed = events.closed();
    std::vector<quire::Event> taken = events.drain(1, timeout_argument(closed ? 0 : timeout_ns));
    if (!taken.empty()) return pending.give(std::move(taken.front()));
    if (closed) throw quire::Error(quire::ErrorCode::closed, "queue: closed");
    if (!events.closed()) return nullptr;
  }
}

// The same for one that need not be there, and that no failure may take from those taken before it.
quire_event* take_another_event(quire::EventQueue& events) noexcept {
  try {
    return take_event(events, 0);
  } catch (...) {
    return nullptr;  // the next call meets it again
  }
}

}  // namespace

quire_queue* quire_queue_create(quire_runtime* runtime, quire_error** error) {
  return guard(error, static_cast<quire_queue*>(nullptr),
               [&] { return make_handle<quire_queue>(Pinned(runtime, "runtime")->share); });
}

quire_event* quire_queue_wait(quire_queue* queue, int64_t timeout_ns, quire_error** error) {
  return guard(error, static_cast<quire_event*>(nullptr), [&]() -> quire_event* {
    const Pinned pinned(queue, "queue");
    if (timeout_ns != 0) refuse_in_callback("waiting in quire_queue_wait");
    return take_event(*pinned->share.events, timeout_ns);
  });
}

int64_t quire_queue_drain(quire_queue* queue, int64_t timeout_ns, quire_event** out_events, size_t max_events,
                          quire_error** error) {
  return guard(error, int64_t{-1}, [&]() -> int64_t {
    const Pinned pinned(queue, "queue");
    const OutArgument<quire_event*> out(out_events, max_events, "out_events");
    if (max_events == 0)
      throw quire::Error(quire::ErrorCode::invalid_argument, "max_events: 0 is not 1 or more");
    if (timeout_ns != 0) refuse_in_callback("waiting in quire_queue_drain");
    quire::EventQueue& events = *pinned->share.events;
    size_t count = 0;
    for (quire_event* event = take_event(events, timeout_ns); event != nullptr;
         event = count < max_events ? take_another_event(events) : nullptr) {
      out_events[count++] = event;
    }
    return static_cast<int64_t>(count);
  });
}

int32_t quire_queue_fd(quire_queue* queue, quire_error** error) {
  return guard(error, -1,
               [&]() -> int32_t { return Pinned(queue, "queue")->share.events->file_descriptor(); });
}

int32_t quire_queue_close(quire_queue* queue, quire_error** error) {
  return guard(error, 0, [&] {
    Pinned(queue, "queue")->share.events->close();
    return 1;
  });
}

int32_t quire_queue_free(quire_queue* handle, quire_error** error) {
  return free_handle(handle, error);
}
