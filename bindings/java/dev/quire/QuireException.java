package dev.quire;

import java.nio.charset.StandardCharsets;

/** A call that failed: a code that a program can act on, and one line of text for a person. */
public final class QuireException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  private final int code;

  private QuireException(int code, String message) {
    super(message);
    this.code = code;
  }

  /** Called by the native layer with the text of its error object. */
  static QuireException of(int code, byte[] utf8) {
    return new QuireException(code, new String(utf8, StandardCharsets.UTF_8));
  }

  /** One of the QUIRE_ERROR_* of {@link QuireNativeConstants}. */
  public int code() {
    return code;
  }

  /** The name of the code that a script can match, such as "invalid_argument". */
  public String codeName() {
    return new String(QuireNative.quire_error_code_name(code), StandardCharsets.UTF_8);
  }
}
