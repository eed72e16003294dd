package dev.quire;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.LongConsumer;
import java.util.function.LongFunction;
import java.util.function.LongSupplier;

/**
 * Settings, stored as calls that are made on a native object when it is used. Not safe for concurrent use.
 */
abstract class Settings<S extends Settings<S>> {
  private final List<LongConsumer> setters = new ArrayList<>();
  private final LongSupplier create;
  private final LongConsumer free;

  Settings(LongSupplier create, LongConsumer free) {
    this.create = create;
    this.free = free;
  }

  @SuppressWarnings("unchecked")
  final S set(LongConsumer setter) {
    setters.add(setter);
    return (S) this;
  }

  /** Stores a call that is made before the others, so that they override it. */
  final void setFirst(LongConsumer setter) {
    setters.add(0, setter);
  }

  /** Creates a native object for one call, fills it and frees it. */
  final <T> T with(LongFunction<T> call) {
    long filled = create.getAsLong();
    try {
      setters.forEach(setter -> setter.accept(filled));
      return call.apply(filled);
    } finally {
      free.accept(filled);
    }
  }

  /** Does the same for settings that may be null; the call then gets 0, which means every default. */
  static <T> T withOrNone(Settings<?> settings, LongFunction<T> call) {
    return settings == null ? call.apply(0) : settings.with(call);
  }

  /** Converts an argument to nanoseconds; a time too long for the library becomes its maximum. */
  static long nanoseconds(Duration duration, String name) {
    Require.nonNull(duration, name);
    try {
      return duration.toNanos();
    } catch (ArithmeticException tooLong) {
      return duration.isNegative() ? Long.MIN_VALUE : Long.MAX_VALUE;
    }
  }

  static int asInt(boolean value) {
    return value ? 1 : 0;
  }
}
