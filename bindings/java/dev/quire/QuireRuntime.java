package dev.quire;

/** The owner of the devices that models are loaded on. Safe for concurrent use. */
public final class QuireRuntime extends RuntimeCalls {
  private QuireRuntime(long value) {
    super(value, QuireNative::quire_runtime_free, new Dispatcher());
  }

  /** Creates a runtime with one thread per core. */
  public static QuireRuntime create() {
    return create(new RuntimeOptions());
  }

  /** Creates a runtime that computes with the given number of threads; 0 means one per core. */
  public static QuireRuntime create(int numThreads) {
    return create(new RuntimeOptions().numThreads(numThreads));
  }

  /** Creates a runtime with the given options. */
  public static QuireRuntime create(RuntimeOptions options) {
    Require.nonNull(options, "options");
    NativeLibrary.load();
    return options.with(filled -> new QuireRuntime(QuireNative.quire_runtime_create(filled)));
  }

  /** Loads a model directory with every default. */
  public Model loadModel(String path) {
    return loadModel(path, new ModelOptions());
  }

  /** Loads a model directory. */
  public Model loadModel(String path, ModelOptions options) {
    Require.nonNull(options, "options");
    return options.with(path, filled -> with(runtime -> options.load(runtime, filled, dispatcher)));
  }

  /** Creates an alias without a cache; messages and log lines use its name. */
  public Alias createAlias(String name) {
    byte[] nameBytes = Utf8.bytes(name, "name");
    dispatcher.acquire(this::createQueue);
    try {
      return new Alias(with(runtime -> QuireNative.quire_alias_create(runtime, nameBytes)), dispatcher);
    } catch (RuntimeException refused) {
      dispatcher.release();
      throw refused;
    }
  }

  /** Returns the version of the loaded library, such as "0.1.0". */
  public static String libraryVersion() {
    NativeLibrary.load();
    return Utf8.string(QuireNative.quire_version_string());
  }
}
