package dev.quire;

import java.time.Duration;
import java.util.Iterator;
import java.util.Optional;
import java.util.Spliterator;
import java.util.Spliterators;
import java.util.Spliterators.AbstractSpliterator;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Flow;
import java.util.function.Consumer;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;

/**
 * One submitted piece of work. Safe for concurrent use; each event is delivered to one of the callers.
 * Waiting virtual threads occupy no thread of the system. An interrupt ends the wait but not the job: the
 * call throws ErrorCode.CANCELLED and the thread stays interrupted.
 */
public final class Job extends JobCalls implements Iterable<Event> {
  /** Null if the events go to a queue of the program. */
  private final Waiter waiter;
  private volatile boolean over;

  private Job(long value, Dispatcher dispatcher, Waiter waiter) {
    super(value, job -> {
      QuireNative.quire_job_free(job);
      if (waiter != null) {
        waiter.end();
      }
    }, dispatcher);
    this.waiter = waiter;
  }

  /** Takes ownership of a native job that was created from this request. */
  static Job of(long value, Dispatcher dispatcher, Request request) {
    return new Job(value, dispatcher, request.hasQueue() ? null : dispatcher.add(QuireNative.quire_job_id(value)));
  }

  /** Waits for the next event; empty after the final one was taken. Throws the failure of the job. */
  public Optional<Event> next() {
    return poll(Duration.ofNanos(QuireNativeConstants.QUIRE_WAIT_FOREVER));
  }

  /**
   * Takes the next event other than STARTED, or the final one; empty if the time has passed or none is left.
   * A negative time, also for the other methods, means no limit.
   */
  public Optional<Event> poll(Duration timeout) {
    long[] taken = new long[1];
    Deadline deadline = new Deadline(timeout);
    while (await(deadline, (nanoseconds, cancel) ->
        with(job -> QuireNative.quire_job_drain(job, nanoseconds, cancel, taken))) > 0) {
      Event event = Event.take(taken[0]);
      if (event.isLast()) {
        finish();
      }
      if (event.error() != null) {
        throw event.error();
      }
      if (event.kind() != EventKind.STARTED) {
        return Optional.of(event);
      }
    }
    return Optional.empty();
  }

  /** Waits for the job to end, without taking events; returns false if the time has passed. */
  public boolean waitFor(Duration timeout) {
    return await(new Deadline(timeout), (nanoseconds, cancel) ->
        with(job -> QuireNative.quire_job_wait(job, nanoseconds, cancel))) == 1;
  }

  private static final class Deadline {
    private final long whole;
    private final long start = System.nanoTime();

    Deadline(Duration timeout) {
      long nanoseconds = Settings.nanoseconds(timeout, "timeout");
      whole = nanoseconds < 0 ? Long.MAX_VALUE : nanoseconds;
    }

    long left() {
      return whole == Long.MAX_VALUE ? whole : Math.max(0, whole - (System.nanoTime() - start));
    }
  }

  /**
   * Polls until there is a result or the time has passed. If there is a dispatcher, it waits for the
   * dispatcher between polls.
   */
  private long await(Deadline deadline, NativeWait.Call ask) {
    while (true) {
      NativeWait.requireNoInterrupt();
      long left = deadline.left();
      long seen = news();
      long answer = waiter == null ? NativeWait.until(left, ask) : ask.ask(0, 0);
      if (answer == QuireNativeConstants.QUIRE_WAIT_END) {
        finish();
      }
      if (answer != QuireNativeConstants.QUIRE_WAIT_TIMEOUT || left == 0) {
        return answer;
      }
      if (over) {
        return QuireNativeConstants.QUIRE_WAIT_END;
      }
      if (waiter != null) {
        waiter.await(seen, left);
      }
    }
  }

  private void finish() {
    if (!over) {
      over = true;
      if (waiter != null) {
        waiter.end();
      }
    }
  }

  long news() {
    return waiter == null ? 0 : waiter.news();
  }

  void onNews(long seen, Runnable listener) {
    requireDispatcher();
    waiter.onNews(seen, listener);
  }

  private void requireOpen() {
    with(job -> job);
  }

  private void requireDispatcher() {
    requireOpen();
    if (waiter == null) {
      throw new IllegalStateException("the events of this job go to a queue; take them from the queue");
    }
  }

  /** Returns true if the final event was taken. */
  boolean isDrained() {
    return over;
  }

  /** Returns the events of {@link #next}. */
  @Override
  public Spliterator<Event> spliterator() {
    requireOpen();
    return new AbstractSpliterator<>(Long.MAX_VALUE, Spliterator.ORDERED | Spliterator.NONNULL) {
      @Override
      public boolean tryAdvance(Consumer<? super Event> taker) {
        Optional<Event> event = next();
        event.ifPresent(taker);
        return event.isPresent();
      }
    };
  }

  @Override
  public Iterator<Event> iterator() {
    return Spliterators.iterator(spliterator());
  }

  /** Returns the same as a stream. Closing it frees the job, and cancels it if it has not ended. */
  public Stream<Event> stream() {
    return StreamSupport.stream(spliterator(), false).onClose(this::close);
  }

  /** Returns the same as a publisher with demand. Cancelling the subscription cancels the job. */
  public Flow.Publisher<Event> publisher() {
    requireDispatcher();
    return subscriber -> Require.nonNull(subscriber, "subscriber").onSubscribe(new JobSubscription(this, subscriber));
  }

  /**
   * Returns a future with the result of the job, regardless of which thread takes its events. Cancelling the future cancels the
   * job.
   */
  public CompletableFuture<JobInfo> future() {
    requireDispatcher();
    CompletableFuture<JobInfo> future = new CompletableFuture<>() {
      @Override
      public boolean cancel(boolean mayInterrupt) {
        boolean cancelled = super.cancel(mayInterrupt);
        if (cancelled) {
          Job.this.cancel();
        }
        return cancelled;
      }
    };
    complete(future);
    return future;
  }

  private void complete(CompletableFuture<JobInfo> future) {
    if (future.isDone()) {
      return;
    }
    try {
      long seen = news();
      if (with(job -> QuireNative.quire_job_wait(job, 0, 0)) == 1) {
        future.complete(info());
      } else {
        waiter.onNews(seen, () -> complete(future));
      }
    } catch (RuntimeException failure) {
      future.completeExceptionally(failure);
    }
  }
}
