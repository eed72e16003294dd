package dev.quire;

import java.nio.charset.StandardCharsets;

/** Text crosses the native boundary as UTF-8 bytes. */
final class Utf8 {
  private Utf8() {}

  static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  static String string(byte[] bytes) {
    return new String(bytes, StandardCharsets.UTF_8);
  }
}
