#include <quire/queue.h>

#include "capi/src/arguments.h"
#include "capi/src/callback_scope.h"
#include "capi/src/event_object.h"
#include "capi/src/guard.h"
#include "capi/src/queue_object.h"

using namespace quire::capi;

quire_queue* quire_queue_create(quire_runtime* runtime, quire_error** error) {
  return guard(error, static_cast<quire_queue*>(nullptr),
               [&] { return make_handle<quire_queue>(Pinned(runtime, "runtime")->share); });
}

quire_event* quire_queue_wait(quire_queue* queue, int64_t timeout_ns, quire_error** error) {
  return guard(error, static_cast<quire_event*>(nullptr), [&]() -> quire_event* {
    const Pinned pinned(queue, "queue");
    if (timeout_ns != 0) refuse_in_callback("waiting in quire_queue_wait");
    quire::EventQueue& events = *pinned->share.events;
    PendingEvent pending;
    for (;;) {
      // What came before the close is still given out, so a queue that closes while we wait is asked once
      // more.
      const bool closed = events.closed();
      std::vector<quire::Event> taken = events.drain(1, timeout_argument(closed ? 0 : timeout_ns));
      if (!taken.empty()) return pending.give(std::move(taken.front()));
      if (closed) throw quire::Error(quire::ErrorCode::closed, "queue: closed");
      if (!events.closed()) return nullptr;
    }
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
