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
}
