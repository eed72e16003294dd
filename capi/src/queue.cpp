#include <algorithm>
#include <vector>

#include <quire/queue.h>

#include "capi/src/arguments.h"
#include "capi/src/cancel_object.h"
#include "capi/src/guard.h"
#include "capi/src/queue_object.h"
#include "capi/src/take_events.h"

using namespace quire::capi;

quire_queue* quire_queue_create(quire_runtime* runtime, quire_error** error) {
  return guard(error, static_cast<quire_queue*>(nullptr),
               [&] { return make_handle<quire_queue>(Pinned(runtime, "runtime")->share); });
}

int32_t quire_queue_poll(quire_queue* queue, int64_t timeout_ns, quire_cancel* cancel,
                         quire_event** out_event, quire_error** error) {
  return guard(error, QUIRE_WAIT_FAILED, [&]() -> int32_t {
    const Pinned pinned(queue, "queue");
    quire_event*& event = event_argument(out_event);
    const quire::Wait wait = wait_argument(timeout_ns, cancel, "waiting in quire_queue_poll");
    quire::WaitEnd end = quire::WaitEnd::timeout;
    event = take_event(*pinned->share.events, wait, end);
    return wait_result(end);
  });
}

int64_t quire_queue_drain(quire_queue* queue, int64_t timeout_ns, quire_cancel* cancel,
                          quire_event** out_events, size_t max_events, quire_error** error) {
  return guard(error, int64_t{QUIRE_WAIT_FAILED}, [&]() -> int64_t {
    const Pinned pinned(queue, "queue");
    const quire::Wait wait = wait_argument(timeout_ns, cancel, "waiting in quire_queue_drain");
    check_events_argument(out_events, max_events);
    return take_events(*pinned->share.events, wait, out_events, max_events);
  });
}

int64_t quire_queue_ready(quire_queue* queue, int64_t timeout_ns, quire_cancel* cancel, int64_t* out_ids,
                          size_t max_ids, quire_error** error) {
  return guard(error, int64_t{QUIRE_WAIT_FAILED}, [&]() -> int64_t {
    const Pinned pinned(queue, "queue");
    const quire::Wait wait = wait_argument(timeout_ns, cancel, "waiting in quire_queue_ready");
    const OutArgument<int64_t> out(out_ids, max_ids, "out_ids");
    range_argument(max_ids, size_t{1}, size_t{4096}, "max_ids");
    std::vector<quire::JobId> ready;
    const quire::WaitEnd end = pinned->share.events->ready(wait, max_ids, ready);
    if (end != quire::WaitEnd::ready) return wait_result(end);
    std::transform(ready.begin(), ready.end(), out.data(),
                   [](quire::JobId id) { return static_cast<int64_t>(id.value); });
    return static_cast<int64_t>(ready.size());
  });
}

int32_t quire_queue_set_log_level(quire_queue* queue, int32_t level, quire_error** error) {
  return guard(error, 0, [&] {
    const Pinned pinned(queue, "queue");
    pinned->log->set_level(range_argument(level, QUIRE_LOG_OFF, QUIRE_LOG_DEBUG, "level"));
    pinned->share.runtime->log_gate().follow(pinned->log);
    return 1;
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
