package dev.quire;

/**
 * A switch that ends a call in which another thread waits: a load, or a score. It is triggered once and stays
 * triggered. Any number of threads and calls may share one.
 */
public final class Cancel extends NativeHandle {
  public Cancel() {
    super(create(), QuireNative::quire_cancel_free);
  }

  private static long create() {
    NativeLibrary.load();
    return QuireNative.quire_cancel_create();
  }

  /** Ends the calls that use the switch soon, with ErrorCode.CANCELLED and no partial result. */
  public void trigger() {
    with(cancel -> QuireNative.quire_cancel_trigger(cancel));
  }

  public boolean isTriggered() {
    return with(cancel -> QuireNative.quire_cancel_is_triggered(cancel)) == 1;
  }
}
