package dev.quire;

import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;

/** Text crosses the native boundary as UTF-8 bytes; what is no Unicode is refused, never replaced. */
final class Utf8 {
  private Utf8() {}

  static byte[] bytes(String text) {
    try {
      ByteBuffer encoded = StandardCharsets.UTF_8.newEncoder().encode(CharBuffer.wrap(text));
      byte[] bytes = new byte[encoded.remaining()];
      encoded.get(bytes);
      return bytes;
    } catch (CharacterCodingException loneSurrogate) {
      throw QuireException.of(ErrorCode.ENCODING, "text: a lone surrogate, which no UTF-8 has");
    }
  }

  static String string(byte[] bytes) {
    return new String(bytes, StandardCharsets.UTF_8);
  }
}
