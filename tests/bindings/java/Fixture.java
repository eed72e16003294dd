package story;

import dev.quire.DiagnoseFormat;
import dev.quire.Cache;
import dev.quire.Event;
import dev.quire.Job;
import dev.quire.Model;
import dev.quire.QuireException;
import dev.quire.FinishReason;
import dev.quire.QuireRuntime;
import dev.quire.Request;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;

/** Shared by the tests of the Java binding: the arguments, a cache for each case, and checks of jobs. */
final class Fixture {
  final QuireRuntime runtime;
  final Model model;
  final Cache cache;
  final String path;
  final String prompt;
  final String expected;

  private Fixture(String[] arguments) throws Exception {
    path = arguments[0];
    prompt = Files.readString(Path.of(arguments[1]));
    expected = Files.readString(Path.of(arguments[2]));
    runtime = QuireRuntime.create(2);
    model = runtime.loadModel(path);
    cache = model.createCache(2048);
  }

  interface Body {
    void run(Fixture with) throws Exception;
  }

  /** Runs a case. A failure ends the program at once, even if the case has left threads running. */
  static void run(String[] arguments, String name, Body body) {
    try {
      runCase(arguments, name, body);
    } catch (Throwable failure) {
      failure.printStackTrace();
      Runtime.getRuntime().halt(1);
    }
  }

  private static void runCase(String[] arguments, String name, Body body) throws Exception {
    Fixture made = new Fixture(arguments);
    body.run(made);
    made.runtime.close(); // from the root to the leaf, the wrong order
    made.model.close();
    made.cache.close();
    made.runtime.close();
    checkNothingIsLeft();
    System.out.println("ok: " + name);
  }

  /**
   * Checks that every handle was freed: those of a case, and those that the layer makes for a call. The
   * dispatcher frees its own after it has noticed that no jobs are left.
   */
  private static void checkNothingIsLeft() throws InterruptedException {
    String handles = handles();
    for (int i = 0; i < 1000 && isLeft(handles); i++) {
      Thread.sleep(10);
      handles = handles();
    }
    check(handles.contains("\"quire_event\":0") && !isLeft(handles), handles);
  }

  private static String handles() {
    String report = QuireRuntime.diagnose(DiagnoseFormat.JSON);
    return report.substring(report.indexOf("\"live_handles\""));
  }

  private static boolean isLeft(String handles) {
    return handles.matches(".*:[1-9].*");
  }

  static void check(boolean holds, Object what) {
    if (!holds) {
      throw new AssertionError(what);
    }
  }

  static Request greedy(String text, int maxNewTokens) {
    return new Request(text).temperature(0).maxNewTokens(maxNewTokens);
  }

  /** Takes all events and returns the text. Checks the finish reason in the last event. */
  static String drain(Job job, FinishReason finishReason) {
    StringBuilder text = new StringBuilder();
    FinishReason last = FinishReason.NONE;
    for (Optional<Event> event = job.next(); event.isPresent(); event = job.next()) {
      text.append(event.get().text());
      last = event.get().finishReason();
    }
    check(last == finishReason, "finish reason " + last);
    return text.toString();
  }

  static QuireException refused(Runnable call) {
    try {
      call.run();
    } catch (QuireException refusal) {
      return refusal;
    }
    throw new AssertionError("it was not refused");
  }

  /** Checks the name of the error code and that the message is one line that contains the text. */
  static void checkRefused(String codeName, String says, Runnable call) {
    QuireException refusal = refused(call);
    String message = refusal.getMessage();
    check(refusal.codeName().equals(codeName), refusal.codeName() + ": " + message);
    check(message.contains(says) && !message.isEmpty() && !message.contains("\n"), message);
  }
}
