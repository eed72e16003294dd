package dev.quire;

/** A loaded model with its tokenizer; it never changes. Any thread may use it at any time. */
public final class Model extends ModelCalls {
  Model(long value, Dispatcher dispatcher) {
    super(value, QuireNative::quire_model_free, dispatcher);
  }

  /** Takes the memory of a cache with every default and starts its scheduler. */
  public Cache createCache() {
    return createCache(new CacheOptions());
  }

  /** The same with room for so many tokens of all jobs together; 0 is one job of full length. */
  public Cache createCache(long maxTokens) {
    return createCache(new CacheOptions().maxTokens(maxTokens));
  }
}
