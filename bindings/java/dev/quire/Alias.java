package dev.quire;

/**
 * A name that jobs are submitted to, and the cache behind it, which can be exchanged while jobs run: new jobs go to the
 * new cache, running ones finish on the old one. Close the old cache after the exchange, do not shut it down. Any thread
 * may use it at any time.
 */
public final class Alias extends AliasCalls {
  /** As long as it is open the dispatcher, which it was acquired for, waits for its jobs, those to come included. */
  Alias(long value, Dispatcher dispatcher) {
    super(value, alias -> {
      QuireNative.quire_alias_free(alias);
      dispatcher.release();
    }, dispatcher);
  }

  /** Hands a request to the cache behind the alias, else to the first of its fallbacks that takes it. */
  public Job submit(Request request) {
    return with(alias -> dispatcher.submit(request, null,
        filled -> Job.of(QuireNative.quire_alias_submit(alias, filled), dispatcher, request)));
  }
}
