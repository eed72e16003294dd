package dev.quire;

import java.time.Duration;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Flow;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;

/**
 * One generation. Any thread may use it at any time; each event is given to one of those that ask. Waiting holds no
 * thread of the system where the thread that waits is a virtual one. An interrupt ends the wait and not the job: the
 * call throws QUIRE_ERROR_CANCELLED and the thread stays interrupted.
 */
public final class Job extends NativeHandle implements Iterable<Event> {
  /** How long a wait in the library lasts before the thread looks whether it was interrupted. */
  private static final long SLICE = Duration.ofMillis(100).toNanos();

  private final Dispatcher dispatcher;
  /** Null where the events go to a queue of the program. */
  private final Waiter waiter;
  private volatile boolean over;

  private Job(long value, Dispatcher dispatcher, Waiter waiter) {
    super(value, job -> {
      QuireNative.quire_job_free(job);
      if (waiter != null) {
        waiter.end();
      }
    });
    this.dispatcher = dispatcher;
    this.waiter = waiter;
  }

  /** Takes over a native job that was made from this request. */
  static Job of(long value, Dispatcher dispatcher, Request request) {
    return new Job(value, dispatcher, request.hasQueue() ? null : dispatcher.add(QuireNative.quire_job_id(value)));
  }

  /** Waits for the next event; empty once the last one was taken. Throws what the job failed with. */
  public Optional<Event> next() {
    return poll(Duration.ofNanos(QuireNativeConstants.QUIRE_WAIT_FOREVER));
  }

  /**
   * Takes the next event but a start, or the last one; empty where the time passed or none is left. A negative time,
   * here and below, does not pass.
   */
  public Optional<Event> poll(Duration timeout) {
    long[] taken = new long[1];
    Event[] found = new Event[1];
    await(timeout, nanoseconds -> {
      long count = with(job -> QuireNative.quire_job_drain(job, nanoseconds, 0, taken));
      if (count > 0) {
        Event event = Event.take(taken[0]);
        if (event.isLast()) {
          finish();
        }
        if (event.type() == QuireNativeConstants.QUIRE_EVENT_STARTED) {
          return Answer.ASK_AGAIN;
        }
        found[0] = event;
      } else if (count == QuireNativeConstants.QUIRE_WAIT_END) {
        finish();
      }
      return count == 0 && !over ? Answer.NOT_YET : Answer.DONE;
    });
    if (found[0] != null && found[0].error() != null) {
      throw found[0].error();
    }
    return Optional.ofNullable(found[0]);
  }

  /** Waits for the job to end, taking no event; false where the time passed. */
  public boolean waitFor(Duration timeout) {
    return await(timeout, nanoseconds ->
        with(job -> QuireNative.quire_job_wait(job, nanoseconds, 0)) == 1 ? Answer.DONE : Answer.NOT_YET);
  }

  private enum Answer { DONE, NOT_YET, ASK_AGAIN }

  private interface Question {
    /** Asks the job, waiting so many nanoseconds in the library. */
    Answer ask(long nanoseconds);
  }

  /** Asks until the answer is there or the time is over, waiting for news where the dispatcher tells of it. */
  private boolean await(Duration timeout, Question question) {
    long whole = timeout.isNegative() ? Long.MAX_VALUE : Settings.nanoseconds(timeout);
    long start = System.nanoTime();
    while (true) {
      if (Thread.currentThread().isInterrupted()) {
        throw QuireException.of(QuireNativeConstants.QUIRE_ERROR_CANCELLED, Utf8.bytes("the wait was interrupted"));
      }
      long left = whole == Long.MAX_VALUE ? whole : whole - (System.nanoTime() - start);
      long seen = news();
      Answer answer = question.ask(waiter == null ? Math.max(0, Math.min(left, SLICE)) : 0);
      if (answer == Answer.DONE) {
        return true;
      }
      if (answer == Answer.NOT_YET) {
        if (left <= 0) {
          return false;
        }
        if (waiter != null) {
          waiter.await(seen, left);
        }
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
      throw new IllegalStateException("the events of this job go to a queue: take them there");
    }
  }

  /** Whether the last event was taken. */
  boolean isDrained() {
    return over;
  }

  /** The events as {@link #next} gives them. */
  @Override
  public Iterator<Event> iterator() {
    requireOpen();
    return new Iterator<>() {
      private Optional<Event> ahead = Optional.empty();

      @Override
      public boolean hasNext() {
        if (ahead.isEmpty()) {
          ahead = Job.this.next();
        }
        return ahead.isPresent();
      }

      @Override
      public Event next() {
        if (!hasNext()) {
          throw new NoSuchElementException();
        }
        Event event = ahead.get();
        ahead = Optional.empty();
        return event;
      }
    };
  }

  /** The same as a stream; closing it frees the job, which cancels it where it is not over. */
  public Stream<Event> stream() {
    return StreamSupport.stream(spliterator(), false).onClose(this::close);
  }

  /** The same by demand. Cancelling the subscription cancels the job. */
  public Flow.Publisher<Event> publisher() {
    requireDispatcher();
    return new JobPublisher(this);
  }

  /** What the job has come to once it is over, whoever takes its events. Cancelling the future cancels the job. */
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

  /** Ends the job soon; its last event says QUIRE_FINISH_CANCELLED. */
  public void cancel() {
    with(job -> QuireNative.quire_job_cancel(job));
  }

  /** Sets the job aside until {@link #resume}; it keeps its room in the cache as long as others need none. */
  public void pause() {
    with(job -> QuireNative.quire_job_pause(job));
  }

  /** Lets a paused job go on. */
  public void resume() {
    with(job -> QuireNative.quire_job_resume(job));
  }

  /** Changes {@link Request#priority}. */
  public void setPriority(int priority) {
    with(job -> QuireNative.quire_job_set_priority(job, priority));
  }

  /** Takes generated tokens back, all but the first, and lets the job go on; an event says what stands. */
  public void rewind(int newTokens) {
    with(job -> QuireNative.quire_job_rewind(job, newTokens));
  }

  /** A second job that goes on from the tokens of this one. Of the request count seed, user data, queue, length. */
  public Job fork(Request request) {
    requireOpen();
    return dispatcher.submit(request, () -> {
      throw QuireException.of(QuireNativeConstants.QUIRE_ERROR_CLOSED, Utf8.bytes("the job is over"));
    }, filled -> with(job -> Job.of(QuireNative.quire_job_fork(job, filled), dispatcher, request)));
  }

  /** A number that no other job of the process has or will have: {@link Event#jobId}. */
  public long id() {
    return with(job -> QuireNative.quire_job_id(job));
  }

  /** What is known of the job now. */
  public JobInfo info() {
    return with(JobInfo::of);
  }

  /** One line for a person: why the job waits, what it does, or how it ended. */
  public String explain() {
    return with(job -> Results.text(out -> QuireNative.quire_job_explain(job, out)));
  }

  /**
   * Of a finished SCORE job the natural logarithm of the probability of each token of the prompt; NaN for the first.
   */
  public float[] scores() {
    return with(job -> Results.floats(out -> QuireNative.quire_job_scores(job, out)));
  }

  /** Of a finished SCORE job with {@link Request#rawLogits} the logits for what follows each token. */
  public float[] rawLogits() {
    return with(job -> Results.floats(out -> QuireNative.quire_job_raw_logits(job, out)));
  }

  /** Of a finished EMBED job the vector. */
  public float[] embedding() {
    return with(job -> Results.floats(out -> QuireNative.quire_job_embedding(job, out)));
  }
}
