package dev.quire;

/** The devices that models are loaded on. Any thread may use it at any time. */
public final class QuireRuntime extends NativeHandle {
  private QuireRuntime(long value) {
    super(value, QuireNative::quire_runtime_free);
  }

  /** A runtime with one thread per core. */
  public static QuireRuntime create() {
    return create(0);
  }

  /** A runtime that computes with so many threads; 0 is one per core. */
  public static QuireRuntime create(int numThreads) {
    NativeLibrary.load();
    long options = QuireNative.quire_runtime_options_create();
    try {
      QuireNative.quire_runtime_options_set_num_threads(options, numThreads);
      return new QuireRuntime(QuireNative.quire_runtime_create(options));
    } finally {
      QuireNative.quire_runtime_options_free(options);
    }
  }

  /** Loads a model directory. */
  public Model loadModel(String path) {
    long options = QuireNative.quire_model_options_create();
    try {
      QuireNative.quire_model_options_set_path(options, Utf8.bytes(path));
      return with(runtime -> new Model(QuireNative.quire_model_load(runtime, options)));
    } finally {
      QuireNative.quire_model_options_free(options);
    }
  }
}
