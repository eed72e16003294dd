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
    while (!over) {
      Optional<Event> event = poll(Duration.ofMillis(100));
      if (event.isPresent()) {
        return event;
      }
    }
    return Optional.empty();
  }

  /** Takes the next event with text or the last one; empty where the time passed or no event is left. */
  public Optional<Event> poll(Duration timeout) {
    long deadline = System.nanoTime() + timeout.toNanos();
    while (!over) {
      long left = Math.max(0, deadline - System.nanoTime());
      long event = with(job -> QuireNative.quire_job_poll(job, left));
      if (event == 0) {
        break;
      }
      Event read = read(event);
      if (read != null) {
        return Optional.of(read);
      }
    }
    return Optional.empty();
  }

  /** Copies an event and frees it; null for one that says nothing to a reader of text. */
  private Event read(long event) {
    try {
      int type = QuireNative.quire_event_type(event);
      if (type == QuireNativeConstants.QUIRE_EVENT_ERROR) {
        over = true;
        throw QuireException.of(
            QuireNative.quire_event_error_code(event), QuireNative.quire_event_error_message(event));
      }
      if (type != QuireNativeConstants.QUIRE_EVENT_TEXT && type != QuireNativeConstants.QUIRE_EVENT_FINISHED) {
        return null;
      }
      over |= type == QuireNativeConstants.QUIRE_EVENT_FINISHED;
      int[] tokens = new int[Math.toIntExact(QuireNative.quire_event_tokens(event, null))];
      QuireNative.quire_event_tokens(event, tokens);
      String text = Utf8.string(QuireNative.quire_event_text(event));
      return new Event(text, tokens, QuireNative.quire_event_finish_reason(event));
    } finally {
      QuireNative.quire_event_free(event);
    }
  }

  /** Ends the job soon; its last event says QUIRE_FINISH_CANCELLED. */
  public void cancel() {
    with(job -> QuireNative.quire_job_cancel(job));
  }
}
