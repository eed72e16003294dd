package dev.quire.springai;

import org.springframework.boot.diagnostics.AbstractFailureAnalyzer;
import org.springframework.boot.diagnostics.FailureAnalysis;

/** Explains that the native library of Quire cannot be loaded. Other libraries are left to other analyzers. */
public final class NativeLibraryFailureAnalyzer extends AbstractFailureAnalyzer<UnsatisfiedLinkError> {
  /** Creates the analyzer; Boot does this, by META-INF/spring.factories. */
  public NativeLibraryFailureAnalyzer() {}

  @Override
  protected FailureAnalysis analyze(Throwable rootFailure, UnsatisfiedLinkError cause) {
    String message = String.valueOf(cause.getMessage());
    if (!message.toLowerCase(java.util.Locale.ROOT).contains("quire")) {
      return null;
    }
    return new FailureAnalysis("The native library of Quire cannot be loaded: " + message,
        "Run on Linux for x86-64 with glibc, or start the JVM with -Dquire.native.dir=FOLDER, a folder with libquire and "
            + "libquire_java for this platform.", cause);
  }
}
