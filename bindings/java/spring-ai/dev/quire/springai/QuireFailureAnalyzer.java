package dev.quire.springai;

import dev.quire.QuireException;
import org.springframework.boot.diagnostics.AbstractFailureAnalyzer;
import org.springframework.boot.diagnostics.FailureAnalysis;

/** Explains why an application does not start because of its model, and which property to change. */
public final class QuireFailureAnalyzer extends AbstractFailureAnalyzer<QuireException> {
  /** Creates the analyzer; Boot does this, by META-INF/spring.factories. */
  public QuireFailureAnalyzer() {}

  @Override
  protected FailureAnalysis analyze(Throwable rootFailure, QuireException cause) {
    return new FailureAnalysis("Quire has failed with " + cause.codeName() + ": " + cause.getMessage(), action(cause), cause);
  }

  private static String action(QuireException cause) {
    return switch (cause.code()) {
      case NOT_FOUND, IO -> "Set spring.ai.quire.path to the directory of a model: its config.json, weights and tokenizer. "
          + "spring.ai.quire.device names one of its devices.";
      case OUT_OF_MEMORY, CAPACITY -> "Set spring.ai.quire.cache-tokens to a smaller number, or take a smaller model or another "
          + "spring.ai.quire.device.";
      case FORMAT, TRUNCATED -> "The files below spring.ai.quire.path are damaged or incomplete. Download the model again.";
      case UNSUPPORTED -> "Take a model or a device that Quire supports; the description names what is missing.";
      default -> cause.parameter().isEmpty() ? "The description names what is at fault."
          : "Change " + cause.parameter() + ", which the description explains.";
    };
  }
}
