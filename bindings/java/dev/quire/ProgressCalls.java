package dev.quire;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongFunction;

/** Passes the progress of loads to their {@link Progress}. */
final class ProgressCalls {
  private static final Map<Long, ProgressCalls> UNDER_WAY = new ConcurrentHashMap<>();
  private static final AtomicLong LAST = new AtomicLong();

  private final Progress progress;
  private RuntimeException exception;
  private Error error;

  private ProgressCalls(Progress progress) {
    this.progress = progress;
  }

  /** Makes a load with the number of the progress, or 0 if that is null. */
  static Model during(Progress progress, LongFunction<Model> load) {
    if (progress == null) {
      return load.apply(0);
    }
    ProgressCalls calls = new ProgressCalls(progress);
    long number = LAST.incrementAndGet();
    UNDER_WAY.put(number, calls);
    try {
      return calls.unlessFailed(load.apply(number));
    } finally {
      UNDER_WAY.remove(number);
    }
  }

  private Model unlessFailed(Model loaded) {
    if (exception == null && error == null) {
      return loaded;
    }
    loaded.close();
    if (error != null) {
      throw error;
    }
    throw exception;
  }

  /** Called by the native layer. Throws nothing, since an exception could not pass through the library. */
  static void tell(long number, long doneBytes, long totalBytes) {
    UNDER_WAY.get(number).tell(doneBytes, totalBytes);
  }

  private void tell(long doneBytes, long totalBytes) {
    if (exception != null || error != null) {
      return;
    }
    try {
      progress.tell(doneBytes, totalBytes);
    } catch (RuntimeException thrown) {
      exception = thrown;
    } catch (Error thrown) {
      error = thrown;
    }
  }
}
