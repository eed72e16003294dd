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
public final class EventQueue extends NativeHandle {
  /** The most that one call of drain takes. */
  private static final int MAX_DRAINED = 1024;
  /** How long a wait in the library lasts before the thread looks whether it was interrupted. */
  private static final long SLICE = Duration.ofMillis(100).toNanos();

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
    long whole = timeout.isNegative() ? Long.MAX_VALUE : Settings.nanoseconds(timeout);
    long start = System.nanoTime();
    while (true) {
      if (Thread.currentThread().isInterrupted()) {
        throw QuireException.of(QuireNativeConstants.QUIRE_ERROR_CANCELLED, Utf8.bytes("the wait was interrupted"));
      }
      long left = whole == Long.MAX_VALUE ? whole : whole - (System.nanoTime() - start);
      long slice = Math.max(0, Math.min(left, SLICE));
      long count = with(queue -> QuireNative.quire_queue_drain(queue, slice, 0, taken));
      if (count == QuireNativeConstants.QUIRE_WAIT_END) {
        throw QuireException.of(QuireNativeConstants.QUIRE_ERROR_CLOSED, Utf8.bytes("the queue was shut down"));
      }
      if (count > 0 || left <= 0) {
        return take(Arrays.copyOf(taken, (int) Math.max(0, count)));
      }
    }
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

  /** Wakes all that wait. Events in the queue can still be taken; later ones stay with their jobs, which run on. */
  public void shutdown() {
    with(queue -> QuireNative.quire_queue_close(queue));
  }
}
