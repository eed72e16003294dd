package dev.quire;

import java.util.Arrays;
import java.util.List;

/** The key/value cache of a model with the scheduler that batches its jobs. Any thread may use it at any time. */
public final class Cache extends CacheCalls {
  private static final int FOREVER = QuireNativeConstants.QUIRE_WAIT_FOREVER;

  Cache(long value, Dispatcher dispatcher) {
    super(value, QuireNative::quire_cache_free, dispatcher);
  }

  /** Hands a request over; everything that can be refused is refused here. */
  public Job submit(Request request) {
    return dispatcher.submit(request, this::createQueue,
        filled -> with(cache -> Job.of(QuireNative.quire_job_submit(cache, filled), dispatcher, request)));
  }

  /**
   * Hands over so many copies of a request, all or none: completions of one prompt, which is computed once. Their
   * seeds count up from that of the request.
   */
  public List<Job> submitMany(Request request, int count) {
    long[] jobs = new long[Math.max(0, count)];
    return dispatcher.submit(request, this::createQueue, filled -> {
      with(cache -> QuireNative.quire_job_submit_many(cache, filled, jobs));
      return Arrays.stream(jobs).mapToObj(job -> Job.of(job, dispatcher, request)).toList();
    });
  }

  private EventQueue createQueue() {
    return with(cache -> new EventQueue(QuireNative.quire_cache_create_queue(cache)));
  }

  /**
   * Ends every job with QUIRE_ERROR_CLOSED and refuses what comes later. Waits for the step in progress, where a
   * device hangs no longer than {@link CacheOptions#closeTimeout}. Events and figures can still be read.
   */
  public void shutdown() {
    with(cache -> QuireNative.quire_cache_close(cache, FOREVER, 0));
  }
}
