package dev.quire;

import java.util.HashMap;
import java.util.Map;
import java.util.function.LongFunction;
import java.util.function.Supplier;

/**
 * Waits in one place for the jobs of a runtime: as long as there are jobs one thread sits in the library, in a private
 * queue, and wakes those that wait for one of them. It takes no event: what nobody reads stays with its job and under
 * its {@link Request#eventPolicy}. Nobody parks while it is locked, so that virtual threads may come here too.
 */
final class Dispatcher {
  /** Jobs that are told at once. */
  private static final int MAX_READY = 256;

  private final Map<Long, Waiter> waiting = new HashMap<>();
  /** Null while there is nothing that uses it. */
  private EventQueue queue;
  /** Jobs, submits under way, and aliases. */
  private int users;

  /** Makes a native call with a request, whose events come to the dispatcher unless it names a queue. */
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
   * The queue, for what releases it later; without one create makes it, which is null where the queue is there as long as
   * what is submitted to is in use.
   */
  synchronized EventQueue acquire(Supplier<EventQueue> create) {
    if (queue == null) {
      if (create == null) {
        throw QuireException.of(ErrorCode.CLOSED, "it is over");
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
      queue.close(); // which ends the wait in it
      queue = null;
    }
  }

  /** The waiter of a job that was submitted just now. */
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
      // with the last job
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
