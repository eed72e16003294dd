package dev.quire;

import java.util.List;
import java.util.stream.IntStream;

/** The devices that models are loaded on. Any thread may use it at any time. */
public final class QuireRuntime extends NativeHandle {
  /** Of all jobs of its caches. */
  private final Dispatcher dispatcher = new Dispatcher();

  private QuireRuntime(long value) {
    super(value, QuireNative::quire_runtime_free);
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
    return options.withPath(path, filled -> with(runtime -> options.load(runtime, filled, dispatcher)));
  }

  /**
   * What a model directory and a cache will take, before a weight is read. Fails as a load does, and with
   * QUIRE_ERROR_OUT_OF_MEMORY where a split over several devices, automatic or by bytes, does not go.
   */
  public Plan plan(String path, ModelOptions model, CacheOptions cache) {
    return model.withPath(path, filledModel -> cache.with(filledCache -> with(
        runtime -> Plan.take(QuireNative.quire_plan_create(runtime, filledModel, filledCache)))));
  }

  /** An empty queue for jobs of caches of this runtime. */
  public EventQueue createQueue() {
    return with(runtime -> new EventQueue(QuireNative.quire_queue_create(runtime)));
  }

  /** All devices, those that cannot be used included, in an order that does not change. */
  public List<Device> devices() {
    return with(runtime -> IntStream.range(0, QuireNative.quire_runtime_num_devices(runtime))
        .mapToObj(device -> new Device(
            Results.text(out -> QuireNative.quire_runtime_device_name(runtime, device, out)),
            Results.text(out -> QuireNative.quire_runtime_device_description(runtime, device, out)),
            Results.text(out -> QuireNative.quire_runtime_device_refusal(runtime, device, out)),
            QuireNative.quire_runtime_device_memory_bytes(runtime, device),
            QuireNative.quire_runtime_device_free_bytes(runtime, device)))
        .toList());
  }

  /** What this machine offers and what the library found, for a person. */
  public static String diagnose() {
    return diagnose(QuireNativeConstants.QUIRE_DIAGNOSE_TEXT);
  }

  /** The same as one JSON object. */
  public static String diagnoseAsJson() {
    return diagnose(QuireNativeConstants.QUIRE_DIAGNOSE_JSON);
  }

  private static String diagnose(int format) {
    NativeLibrary.load();
    return Results.text(out -> QuireNative.quire_diagnose(format, out));
  }

  /** The version of the library that is loaded, such as "0.1.0". */
  public static String libraryVersion() {
    NativeLibrary.load();
    return Utf8.string(QuireNative.quire_version_string());
  }
}
