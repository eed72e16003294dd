package dev.quire;

/** A loaded model with its tokenizer; it never changes. Safe for concurrent use. */
public final class Model extends ModelCalls {
  Model(long value, Dispatcher dispatcher) {
    super(value, QuireNative::quire_model_free, dispatcher);
  }

  /** Creates a cache with every default and starts its scheduler. */
  public Cache createCache() {
    return createCache(new CacheOptions());
  }

  /** Does the same for the given number of tokens of all jobs together; 0 means one job of full length. */
  public Cache createCache(long maxTokens) {
    return createCache(new CacheOptions().maxTokens(maxTokens));
  }
}
