package dev.quire;

import java.time.Duration;
import java.util.Optional;

/** One generation. Any thread may use it at any time; each event is given to one of those that poll. */
public final class Job extends NativeHandle {
  private volatile boolean over;

  Job(long value) {
    super(value, QuireNative::quire_job_free);
  }

  /** Waits for the next event; empty once the last one was taken. Throws what the job failed with. */
  public Optional<Event> next() {
    boolean finished = false;
    while (!over) {
      Optional<Event> event = poll(Duration.ofMillis(100));
      if (event.isPresent()) {
        return event;
      }
      // Nothing behind the end: the last event went to a queue or to another thread.
      over |= finished;
      finished = waitFor(Duration.ZERO);
    }
    return Optional.empty();
  }

  /**
   * Takes the next event with text or progress, or the last one; empty where the time passed or none is left. A
   * negative time, here and below, does not pass.
   */
  public Optional<Event> poll(Duration timeout) {
    long deadline = System.nanoTime() + Settings.nanoseconds(timeout);
    while (!over) {
      long left = timeout.isNegative() ? QuireNativeConstants.QUIRE_WAIT_FOREVER
          : Math.max(0, deadline - System.nanoTime());
      long taken = with(job -> QuireNative.quire_job_poll(job, left));
      if (taken == 0) {
        break;
      }
      Event event = Event.take(taken);
      over |= event.isLast();
      if (event.error() != null) {
        throw event.error();
      }
      if (event.isLast() || event.type() == QuireNativeConstants.QUIRE_EVENT_TEXT
          || event.type() == QuireNativeConstants.QUIRE_EVENT_PREFILL) {
        return Optional.of(event);
      }
    }
    return Optional.empty();
  }

  /** Waits for the job to end, taking no event; false where the time passed. */
  public boolean waitFor(Duration timeout) {
    return with(job -> QuireNative.quire_job_wait(job, Settings.nanoseconds(timeout))) == 1;
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

  /** Takes generated tokens back, all but the first, and lets the job go on; events are not taken back. */
  public void rewind(int newTokens) {
    with(job -> QuireNative.quire_job_rewind(job, newTokens));
  }

  /** A second job that goes on from the tokens of this one. Of the request count seed, user data, queue, length. */
  public Job fork(Request request) {
    return request.with(filled -> with(job -> new Job(QuireNative.quire_job_fork(job, filled))));
  }

  /** A number that no other job of the cache has or will have: {@link Event#jobId}. */
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
