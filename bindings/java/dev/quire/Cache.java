package dev.quire;

/** The key/value cache of a model with the scheduler that batches its jobs. Any thread may use it at any time. */
public final class Cache extends NativeHandle {
  Cache(long value) {
    super(value, QuireNative::quire_cache_free);
  }

  /** Hands a request over; everything that can be refused is refused here. */
  public Job submit(Request request) {
    long filled = request.toNative();
    try {
      return with(cache -> new Job(QuireNative.quire_job_submit(cache, filled)));
    } finally {
      QuireNative.quire_job_request_free(filled);
    }
  }
}
