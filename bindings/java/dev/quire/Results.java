package dev.quire;

import java.util.Arrays;
import java.util.EnumMap;
import java.util.Map;
import java.util.OptionalInt;
import java.util.function.BiFunction;
import java.util.function.Function;
import java.util.function.IntFunction;
import java.util.function.ToLongFunction;

/**
 * Fetches results of any size: queries the size, allocates memory, and queries again if the result has grown.
 */
final class Results {
  private Results() {}

  static String text(ToLongFunction<byte[]> call) {
    return Utf8.string(bytes(call));
  }

  static byte[] bytes(ToLongFunction<byte[]> call) {
    return fetch(byte[]::new, call, Arrays::copyOf);
  }

  static int[] ints(ToLongFunction<int[]> call) {
    return fetch(int[]::new, call, Arrays::copyOf);
  }

  static long[] longs(ToLongFunction<long[]> call) {
    return fetch(long[]::new, call, Arrays::copyOf);
  }

  static float[] floats(ToLongFunction<float[]> call) {
    return fetch(float[]::new, call, Arrays::copyOf);
  }

  private static <A> A fetch(IntFunction<A> make, ToLongFunction<A> call, BiFunction<A, Integer, A> cut) {
    int room = 0;
    while (true) {
      A out = make.apply(room);
      int size = Math.toIntExact(call.applyAsLong(out));
      if (size <= room) {
        return size == room ? out : cut.apply(out, size);
      }
      room = size;
    }
  }

  static OptionalInt unlessNegative(int token) {
    return token < 0 ? OptionalInt.empty() : OptionalInt.of(token);
  }

  static <K extends Enum<K>, T> Map<K, T> byKind(Class<K> kinds, Function<K, T> read) {
    Map<K, T> all = new EnumMap<>(kinds);
    for (K kind : kinds.getEnumConstants()) {
      all.put(kind, read.apply(kind));
    }
    return all;
  }
}
