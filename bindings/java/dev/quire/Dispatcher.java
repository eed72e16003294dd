package dev.quire;

import java.util.HashMap;
import java.util.Map;
import java.util.function.LongFunction;
import java.util.function.Supplier;

/**
 * Waits for all jobs of a runtime. While there are jobs, one thread waits in the library on a private queue,
 * and wakes the threads that wait for one of the jobs. It takes no event: events that are not read stay with
 * their job, subject to its {@link Request#eventPolicy}. No thread blocks while holding its lock, so virtual
 * threads may use it.
 */
final class Dispatcher {
  /** Number of jobs that one call can report. */
  private static final int MAX_READY = 256;

  private final Map<Long, Waiter> waiting = new HashMap<>();
  /** Null while it has no users. */
  private EventQueue queue;
  /** Jobs, running submits, and aliases. */
  private int users;

  /**
   * Makes a native call with a request. Its events go to the dispatcher, unless the request names a queue.
   */
  <T> T submit(Request request, Supplier<EventQueue> create, LongFunction<T> call) {
    if (request.hasQueue()) {
      return request.with(call);
    }
    EventQueue acquired = acquire(create);
    try {
      return request.with(filled -> {
        acquired.with(value -> QuireNative.quire_job_request_set_queue(filled, value));
        return call.apply(filled);
      });
    } finally {
      release();
    }
  }

  /**
   * Returns the queue; the caller must release it later. If there is no queue, create makes one. create is
   * null if the queue exists as long as the target of the submit is in use.
   */
  synchronized EventQueue acquire(Supplier<EventQueue> create) {
    if (queue == null) {
      if (create == null) {
        throw QuireException.of(ErrorCode.CLOSED, "the job is closed or has ended");
      }
      EventQueue made = create.get();
      Thread thread = new Thread(() -> run(made), "quire-dispatcher");
      thread.setDaemon(true);
      thread.start();
      queue = made;
    }
    users++;
    return queue;
  }

  synchronized void release() {
    if (--users == 0) {
      queue.close(); // ends the thread's wait
      queue = null;
    }
  }

  /** Creates the waiter of a job that was just submitted. */
  synchronized Waiter add(long id) {
    Waiter waiter = new Waiter(this, id);
    users++;
    waiting.put(id, waiter);
    return waiter;
  }

  synchronized void remove(long id) {
    if (waiting.remove(id) != null) {
      release();
    }
  }

  private void run(EventQueue from) {
    long[] ids = new long[MAX_READY];
    try {
      for (long count = ready(from, ids); count > 0; count = ready(from, ids)) {
        for (int i = 0; i < count; i++) {
          Waiter waiter = find(ids[i]);
          if (waiter != null) {
            waiter.wake();
          }
        }
      }
    } catch (IllegalStateException | QuireException closed) {
      // the queue was closed with the last job
    }
  }

  private static long ready(EventQueue from, long[] ids) {
    return from.with(value ->
        QuireNative.quire_queue_ready(value, QuireNativeConstants.QUIRE_WAIT_FOREVER, 0, ids));
  }

  private synchronized Waiter find(long id) {
    return waiting.get(id);
  }
}
