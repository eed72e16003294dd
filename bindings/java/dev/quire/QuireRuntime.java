package dev.quire;

/** The devices that models are loaded on. Any thread may use it at any time. */
public final class QuireRuntime extends RuntimeCalls {
  private QuireRuntime(long value) {
    super(value, QuireNative::quire_runtime_free, new Dispatcher());
  }

  /** A runtime with one thread per core. */
  public static QuireRuntime create() {
    return create(new RuntimeOptions());
  }

  /** A runtime that computes with so many threads; 0 is one per core. */
  public static QuireRuntime create(int numThreads) {
    return create(new RuntimeOptions().numThreads(numThreads));
  }

  public static QuireRuntime create(RuntimeOptions options) {
    NativeLibrary.load();
    return options.with(filled -> new QuireRuntime(QuireNative.quire_runtime_create(filled)));
  }

  /** Loads a model directory with every default. */
  public Model loadModel(String path) {
    return loadModel(path, new ModelOptions());
  }

  /** Loads a model directory. */
  public Model loadModel(String path, ModelOptions options) {
    return options.with(path, filled -> with(runtime -> options.load(runtime, filled, dispatcher)));
  }

  /** An alias without a cache; messages and lines of the log call it by the name. */
  public Alias createAlias(String name) {
    dispatcher.acquire(this::createQueue);
    try {
      return new Alias(with(runtime -> QuireNative.quire_alias_create(runtime, Utf8.bytes(name))), dispatcher);
    } catch (RuntimeException refused) {
      dispatcher.release();
      throw refused;
    }
  }

  /** The version of the library that is loaded, such as "0.1.0". */
  public static String libraryVersion() {
    NativeLibrary.load();
    return Utf8.string(QuireNative.quire_version_string());
  }
}
