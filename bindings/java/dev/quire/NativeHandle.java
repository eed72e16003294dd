package dev.quire;

import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongConsumer;
import java.util.function.LongFunction;

/**
 * Owner of a native object. The library checks every handle, so a call that races with close fails cleanly.
 * This class only ensures that the object is freed once, and also if it is never closed.
 */
abstract class NativeHandle implements AutoCloseable {
  private static final Cleaner CLEANER = Cleaner.create();

  /** State that outlives the owner; it holds no reference to the owner. */
  private static final class State implements Runnable {
    final AtomicLong value;
    final LongConsumer free;

    State(long value, LongConsumer free) {
      this.value = new AtomicLong(value);
      this.free = free;
    }

    @Override
    public void run() {
      long last = value.getAndSet(0);
      if (last != 0) {
        free.accept(last);
      }
    }
  }

  private final State state;
  private final Cleaner.Cleanable cleanable;

  NativeHandle(long value, LongConsumer free) {
    state = new State(value, free);
    cleanable = CLEANER.register(this, state);
  }

  /** Makes a call on the object, which is kept alive until the call has returned. */
  final <T> T with(LongFunction<T> call) {
    try {
      long value = state.value.get();
      if (value == 0) {
        throw new IllegalStateException(getClass().getSimpleName() + " is closed");
      }
      return call.apply(value);
    } finally {
      Reference.reachabilityFence(this);
    }
  }

  /** Does the same for an object that may be null; the call then gets 0. */
  static <T> T withOrNone(NativeHandle handle, LongFunction<T> call) {
    return handle == null ? call.apply(0) : handle.with(call);
  }

  /**
   * Frees the object; allowed in any order, from any thread, any number of times. Objects created from it
   * stay usable.
   */
  @Override
  public void close() {
    cleanable.clean();
  }
}
