package dev.quire;

import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongConsumer;
import java.util.function.LongFunction;

/**
 * Owns a native object. The library checks every handle that it is given, so that a call which races with close
 * fails cleanly; what is left to do here is to free once, and to free what was forgotten.
 */
abstract class NativeHandle implements AutoCloseable {
  private static final Cleaner CLEANER = Cleaner.create();

  /** What outlives the owner; holds no reference to it. */
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

  /** Makes a call on the object, which stays alive until the call is over. */
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

  /** The same for an object that may be null, for which the call gets 0. */
  static <T> T withOrNone(NativeHandle handle, LongFunction<T> call) {
    return handle == null ? call.apply(0) : handle.with(call);
  }

  /** Frees the object; any order, any thread, any number of times. What was made from it stays usable. */
  @Override
  public void close() {
    cleanable.clean();
  }
}
