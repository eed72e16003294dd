package dev.quire;

/** Settings of a {@link QuireRuntime}. Untouched ones have their defaults. Not for several threads at once. */
public final class RuntimeOptions extends Settings<RuntimeOptions> {
  public RuntimeOptions() {
    super(QuireNative::quire_runtime_options_create, QuireNative::quire_runtime_options_free);
  }

  /** Threads that compute; 0 is one per core. */
  public RuntimeOptions numThreads(int threads) {
    return set(options -> QuireNative.quire_runtime_options_set_num_threads(options, threads));
  }

  /** The device of models that name none: "cpu", "cuda:0". */
  public RuntimeOptions device(String names) {
    return setText(names, (text, options) -> QuireNative.quire_runtime_options_set_device(options, text));
  }

  /** Bytes of one device, "cpu", that models and caches may take together; 0 is no budget. */
  public RuntimeOptions memoryBudget(String device, long bytes) {
    return setText(device,
        (text, options) -> QuireNative.quire_runtime_options_set_memory_budget(options, text, bytes));
  }
}
