package dev.quire;

import java.util.function.LongFunction;

/** Settings of a {@link Model}. Untouched ones have their defaults. Not for several threads at once. */
public final class ModelOptions extends Settings<ModelOptions> {
  /** How much of a model is loaded. */
  public enum Scope {
    FULL(QuireNativeConstants.QUIRE_MODEL_SCOPE_FULL),
    /** The tokenizer alone: encode and decode work, nothing else. */
    TOKENIZER(QuireNativeConstants.QUIRE_MODEL_SCOPE_TOKENIZER),
    /** All but the weights: descriptions and planning work, caches do not. */
    METADATA(QuireNativeConstants.QUIRE_MODEL_SCOPE_METADATA);

    private final int value;

    Scope(int value) {
      this.value = value;
    }
  }

  private Progress progress;
  private Cancel cancel;

  public ModelOptions() {
    super(QuireNative::quire_model_options_create, QuireNative::quire_model_options_free);
  }

  /** As {@link #with}, for the model of a directory. */
  <T> T withPath(String path, LongFunction<T> call) {
    return with(options -> {
      QuireNative.quire_model_options_set_path(options, Utf8.bytes(path));
      return call.apply(options);
    });
  }

  /** "cuda:0", or several that share the layers: "cpu,cuda:0". Default: the device of the runtime. */
  public ModelOptions device(String names) {
    return setText(names, (text, options) -> QuireNative.quire_model_options_set_device(options, text));
  }

  /** Layers of each device, "20,12", bytes of each at most, "24G,512M", or "auto", the default. */
  public ModelOptions split(String split) {
    return setText(split, (text, options) -> QuireNative.quire_model_options_set_split(options, text));
  }

  /** Memory that is left alone on all devices, "512M", or on each, "512M,2G". Default: "256M". */
  public ModelOptions reserve(String bytes) {
    return setText(bytes, (text, options) -> QuireNative.quire_model_options_set_reserve(options, text));
  }

  /** The cache that the load leaves room for. */
  public ModelOptions plannedCache(CacheOptions cache) {
    return set(options ->
        cache.with(planned -> QuireNative.quire_model_options_set_planned_cache(options, planned)));
  }

  public ModelOptions scope(Scope scope) {
    return set(options -> QuireNative.quire_model_options_set_scope(options, scope.value));
  }

  /** Told how far the load is. */
  public ModelOptions progress(Progress progress) {
    this.progress = progress;
    return this;
  }

  /** Loads what is filled in, and tells how far it is. */
  Model load(long runtime, long filled, Dispatcher dispatcher) {
    return ProgressCalls.during(progress, number -> {
      QuireNative.quire_model_options_set_progress(filled, number);
      return NativeHandle.withOrNone(cancel, value -> new Model(
          QuireNative.quire_model_load(runtime, filled, QuireNativeConstants.QUIRE_WAIT_FOREVER, value), dispatcher));
    });
  }

  /** Stops the load when triggered. */
  public ModelOptions cancel(Cancel cancel) {
    this.cancel = cancel;
    return this;
  }
}
