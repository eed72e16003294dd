package dev.quire;

import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;

/** Converts text to and from UTF-8. Text that is not valid Unicode is refused, never replaced. */
final class Utf8 {
  private Utf8() {}

  /** Encodes an argument; a failure contains its name. */
  static byte[] bytes(String text, String name) {
    try {
      ByteBuffer encoded = StandardCharsets.UTF_8.newEncoder().encode(CharBuffer.wrap(Require.nonNull(text, name)));
      byte[] bytes = new byte[encoded.remaining()];
      encoded.get(bytes);
      return bytes;
    } catch (CharacterCodingException loneSurrogate) {
      throw QuireException.of(ErrorCode.ENCODING, name + ": has a lone surrogate, which UTF-8 cannot encode");
    }
  }

  static String string(byte[] bytes) {
    return new String(bytes, StandardCharsets.UTF_8);
  }
}
