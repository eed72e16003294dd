package dev.quire;

/**
 * A name that jobs are submitted to, with a cache that can be exchanged while jobs run: new jobs go to the
 * new cache, running ones finish on the old one. Close the old cache after the exchange, but do not shut it
 * down. Safe for concurrent use.
 */
public final class Alias extends AliasCalls {
  /**
   * Takes ownership of a native alias. The dispatcher waits for its current and later jobs until it is
   * closed.
   */
  Alias(long value, Dispatcher dispatcher) {
    super(value, alias -> {
      QuireNative.quire_alias_free(alias);
      dispatcher.release();
    }, dispatcher);
  }
}
