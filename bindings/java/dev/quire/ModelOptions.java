package dev.quire;

/**
 * Settings of a {@link Model}. Settings that are not set have their defaults. Not safe for concurrent use.
 */
public final class ModelOptions extends ModelOptionsSettings {
  /** Creates options with every default. */
  public ModelOptions() {}

  private Progress progress;
  private Cancel cancel;

  /** Sets the function that receives the progress of the load. */
  public ModelOptions progress(Progress progress) {
    this.progress = progress;
    return this;
  }

  /** Loads the model of filled options, with its progress. */
  Model load(long runtime, long filled, Dispatcher dispatcher) {
    return ProgressCalls.during(progress, number -> {
      QuireNative.quire_model_options_set_progress(filled, number);
      return NativeHandle.withOrNone(cancel, value -> new Model(
          QuireNative.quire_model_load(runtime, filled, QuireNativeConstants.QUIRE_WAIT_FOREVER, value), dispatcher));
    });
  }

  /** Sets a switch that ends the load. */
  public ModelOptions cancel(Cancel cancel) {
    this.cancel = cancel;
    return this;
  }
}
