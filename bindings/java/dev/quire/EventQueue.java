package dev.quire;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;

/**
 * One stream of the events of many jobs, those whose {@link Request#queue} it is: a service waits in one place and
 * tells its jobs apart by {@link Event#userData} or {@link Event#jobId}. Any thread may use it at any time; each
 * event is given to one of those that wait. It keeps no job alive.
 */
public final class EventQueue extends EventQueueCalls {
  /** The most that one call of drain takes. */
  private static final int MAX_DRAINED = 1024;
  EventQueue(long value) {
    super(value, QuireNative::quire_queue_free);
  }

  /**
   * Takes the next event; empty where the time passed. The failure of a job is its {@link Event#error}; what is
   * thrown is of the queue itself: QUIRE_ERROR_CLOSED once it is shut down and nothing is left in it.
   */
  public Optional<Event> poll(Duration timeout) {
    return drain(1, timeout).stream().findFirst();
  }

  /** Takes up to maxEvents at once, waiting for the first and not for the others; otherwise as {@link #poll}. */
  public List<Event> drain(int maxEvents, Duration timeout) {
    long[] taken = new long[Math.max(0, Math.min(maxEvents, MAX_DRAINED))];
    long nanoseconds = timeout.isNegative() ? QuireNativeConstants.QUIRE_WAIT_FOREVER : Settings.nanoseconds(timeout);
    long count = NativeWait.until(nanoseconds, (left, cancel) ->
        with(queue -> QuireNative.quire_queue_drain(queue, left, cancel, taken)));
    if (count == QuireNativeConstants.QUIRE_WAIT_END) {
      throw QuireException.of(ErrorCode.CLOSED, "the queue was shut down");
    }
    return take(Arrays.copyOf(taken, (int) Math.max(0, count)));
  }

  /** Copies events and frees all of them, also where one cannot be read. */
  private static List<Event> take(long[] taken) {
    List<Event> events = new ArrayList<>(taken.length);
    int next = 0;
    try {
      while (next < taken.length) {
        events.add(Event.take(taken[next++]));
      }
    } finally {
      while (next < taken.length) {
        QuireNative.quire_event_free(taken[next++]);
      }
    }
    return events;
  }
}
