package dev.quire;

/** Settings of a {@link Model}. Untouched ones have their defaults. Not for several threads at once. */
public final class ModelOptions extends ModelOptionsSettings {
  /** Nothing set: each option has its default. */
  public ModelOptions() {}

  private Progress progress;
  private Cancel cancel;

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
