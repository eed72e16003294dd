package dev.quire;

import java.util.Arrays;
import java.util.List;

/** The KV cache of a model with the scheduler that batches its jobs. Safe for concurrent use. */
public final class Cache extends CacheCalls {
  Cache(long value, Dispatcher dispatcher) {
    super(value, QuireNative::quire_cache_free, dispatcher);
  }

  /**
   * Submits several copies of a request, all or none, as completions of one prompt, which is computed once.
   * Their seeds count up from the seed of the request.
   */
  public List<Job> submitMany(Request request, int count) {
    Require.nonNull(request, "request");
    long[] jobs = new long[Math.max(0, count)];
    return dispatcher.submit(request, this::createQueue, filled -> {
      with(cache -> QuireNative.quire_job_submit_many(cache, filled, jobs));
      return Arrays.stream(jobs).mapToObj(job -> Job.of(job, dispatcher, request)).toList();
    });
  }

  @Override
  EventQueue createQueue() {
    return with(cache -> new EventQueue(QuireNative.quire_cache_create_queue(cache)));
  }
}
