package dev.quire.langchain4j;

import dev.langchain4j.exception.InternalServerException;
import dev.langchain4j.exception.InvalidRequestException;
import dev.langchain4j.exception.LangChain4jException;
import dev.langchain4j.exception.RateLimitException;
import dev.langchain4j.exception.TimeoutException;
import dev.langchain4j.exception.UnsupportedFeatureException;
import dev.quire.QuireException;

/**
 * Converts failures of the library to langchain4j's exceptions, with code and message, and the failure as the
 * cause.
 */
final class Failures {
  private Failures() {}

  static RuntimeException of(QuireException failure) {
    String line = failure.codeName() + ": " + failure.getMessage();
    return switch (failure.code()) {
      case INVALID_ARGUMENT, ENCODING, FORMAT, TRUNCATED, NOT_FOUND, TOO_LARGE, DEADLINE_TOO_SHORT ->
          new InvalidRequestException(line, failure);
      case UNSUPPORTED -> unsupported(line, failure);
      case QUOTA, CAPACITY -> new RateLimitException(line, failure);
      case TIMEOUT, DEADLINE -> new TimeoutException(line, failure);
      case NUMERIC, DEVICE_LOST, INTERNAL, OUT_OF_MEMORY -> new InternalServerException(line, failure);
      default -> new LangChain4jException(line, failure);
    };
  }

  private static RuntimeException unsupported(String line, QuireException failure) {
    RuntimeException made = new UnsupportedFeatureException(line);
    made.initCause(failure);
    return made;
  }
}
