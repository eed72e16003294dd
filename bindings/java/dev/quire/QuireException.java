package dev.quire;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Optional;

/** A failed call: a code that a program can act on, and one line of text for a person. */
public final class QuireException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  private final ErrorCode code;
  private final int number;
  private final String parameter;
  private final boolean retryable;
  private final long retryAfter;

  private QuireException(int number, String message, String parameter, boolean retryable, long retryAfter) {
    super(message);
    this.code = ErrorCode.of(number);
    this.number = number;
    this.parameter = parameter;
    this.retryable = retryable;
    this.retryAfter = retryAfter;
  }

  /** Creates the exception for an error object; called by the native layer, which frees that object. */
  static QuireException of(long error, byte[] utf8) {
    return new QuireException(QuireNative.quire_error_code(error), Utf8.string(utf8),
        Utf8.string(QuireNative.quire_error_parameter(error)), QuireNative.quire_error_is_retryable(error) == 1, QuireNative.quire_error_retry_after_ns(error));
  }

  static QuireException of(ErrorCode code, String message) {
    return new QuireException(code.value, message, "", false, -1);
  }

  /** Creates the exception for the failure of a job, from its final event. */
  static QuireException ofEvent(long event) {
    return new QuireException(QuireNative.quire_event_error_code(event),
        Utf8.string(QuireNative.quire_event_error_message(event)),
        Utf8.string(QuireNative.quire_event_error_parameter(event)), false, -1);
  }

  public ErrorCode code() {
    return code;
  }

  /**
   * Returns the name of the parameter at fault, as the C interface names it, such as "temperature"; empty if the error
   * is not about one parameter.
   */
  public String parameter() {
    return parameter;
  }

  /** Returns true if the same call may succeed later without any change by the caller. */
  public boolean isRetryable() {
    return retryable;
  }

  /** Returns the time to wait before another try; empty if unknown. */
  public Optional<Duration> retryAfter() {
    return retryAfter < 0 ? Optional.empty() : Optional.of(Duration.ofNanos(retryAfter));
  }

  /** Returns the name of the code for scripts, such as "invalid_argument". */
  public String codeName() {
    return new String(QuireNative.quire_error_code_name(number), StandardCharsets.UTF_8);
  }
}
