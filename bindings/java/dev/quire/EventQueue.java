package dev.quire;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;

/**
 * A stream of the events of many jobs, those whose {@link Request#queue} it is. A service waits in one place
 * and distinguishes its jobs by {@link Event#userData} or {@link Event#jobId}. Safe for concurrent use; each
 * event is delivered to one waiting thread. It keeps no job alive.
 */
public final class EventQueue extends EventQueueCalls {
  /** Maximum number of events that one call of drain takes. */
  private static final int MAX_DRAINED = 1024;
  EventQueue(long value) {
    super(value, QuireNative::quire_queue_free);
  }

  /**
   * Takes the next event; empty if the time has passed. The failure of a job is in {@link Event#error}.
   * Exceptions are those of the queue itself: ErrorCode.CLOSED once it is shut down and empty.
   */
  public Optional<Event> poll(Duration timeout) {
    return drain(1, timeout).stream().findFirst();
  }

  /** Waits for an event and takes up to maxEvents that are there, otherwise like {@link #poll}. */
  public List<Event> drain(int maxEvents, Duration timeout) {
    long[] taken = new long[Math.max(0, Math.min(maxEvents, MAX_DRAINED))];
    long nanoseconds = Settings.nanoseconds(timeout, "timeout");
    long limit = nanoseconds < 0 ? QuireNativeConstants.QUIRE_WAIT_FOREVER : nanoseconds;
    long count = NativeWait.until(limit, (left, cancel) ->
        with(queue -> QuireNative.quire_queue_drain(queue, left, cancel, taken)));
    if (count == QuireNativeConstants.QUIRE_WAIT_END) {
      throw QuireException.of(ErrorCode.CLOSED, "the queue was shut down");
    }
    return take(Arrays.copyOf(taken, (int) Math.max(0, count)));
  }

  /** Copies events and frees all of them, even if one cannot be read. */
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
