import dev.quire.Cache;
import dev.quire.Event;
import dev.quire.Job;
import dev.quire.Model;
import dev.quire.QuireException;
import dev.quire.QuireNativeConstants;
import dev.quire.QuireRuntime;
import dev.quire.Request;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/**
 * The Java binding on the embedded model: the same greedy text as the command, an emoji on the way in and out, a
 * cancelled job, an error that can be read, and handles closed in a wrong order. Arguments: the model, a file
 * with the prompt, a file with the expected text.
 */
public final class StoryTest {
  private static String prompt;
  private static String expected;

  private StoryTest() {}

  private interface Body {
    void run(QuireRuntime runtime, Model model, Cache cache) throws Exception;
  }

  public static void main(String[] arguments) throws Exception {
    prompt = Files.readString(Path.of(arguments[1]));
    expected = Files.readString(Path.of(arguments[2]));
    run(arguments[0], "streams the text of the command", StoryTest::streams);
    run(arguments[0], "text survives the tokenizer", StoryTest::textSurvives);
    run(arguments[0], "cancel ends a job and leaves its neighbour", StoryTest::cancels);
    run(arguments[0], "errors name what is at fault", StoryTest::errors);
    run(arguments[0], "close while another thread waits", StoryTest::closeWhileWaiting);
    run(arguments[0], "closed objects refuse", StoryTest::closedRefuses);
  }

  private static void run(String path, String name, Body body) throws Exception {
    QuireRuntime runtime = QuireRuntime.create(2);
    Model model = runtime.loadModel(path);
    Cache cache = model.createCache(2048);
    body.run(runtime, model, cache);
    runtime.close(); // from the root to the leaf, the wrong way round
    model.close();
    cache.close();
    runtime.close();
    System.out.println("ok: " + name);
  }

  private static void check(boolean holds, String what) {
    if (!holds) {
      throw new AssertionError(what);
    }
  }

  private static Request greedy(String text, int maxNewTokens) {
    return new Request(text).temperature(0).maxNewTokens(maxNewTokens);
  }

  /** Takes all events; returns the text, and leaves why the job ended in the last one. */
  private static String drain(Job job, int finishReason) {
    StringBuilder text = new StringBuilder();
    int last = QuireNativeConstants.QUIRE_FINISH_NONE;
    for (Optional<Event> event = job.next(); event.isPresent(); event = job.next()) {
      text.append(event.get().text());
      last = event.get().finishReason();
    }
    check(last == finishReason, "finish reason " + last);
    return text.toString();
  }

  private static void streams(QuireRuntime runtime, Model model, Cache cache) {
    try (Job job = cache.submit(greedy(prompt, 48))) {
      String text = drain(job, QuireNativeConstants.QUIRE_FINISH_LENGTH);
      check(text.equals(expected), "expected \"" + expected + "\", got \"" + text + "\"");
    }
  }

  private static void textSurvives(QuireRuntime runtime, Model model, Cache cache) {
    for (String text : new String[] {"", "a 🙂 b", "zero\0byte", prompt}) {
      String decoded = model.decode(model.encode(text, true, false), true);
      check(decoded.equals(text), "\"" + text + "\" came back as \"" + decoded + "\"");
    }
  }

  private static void cancels(QuireRuntime runtime, Model model, Cache cache) {
    Job cancelled = cache.submit(greedy("Once upon a time", 1000));
    Job neighbour = cache.submit(greedy(prompt, 48));
    cancelled.next();
    cancelled.cancel();
    drain(cancelled, QuireNativeConstants.QUIRE_FINISH_CANCELLED);
    check(drain(neighbour, QuireNativeConstants.QUIRE_FINISH_LENGTH).equals(expected), "the neighbour changed");
    cancelled.close();
    neighbour.close();
  }

  private static QuireException refused(Runnable call) {
    try {
      call.run();
    } catch (QuireException refusal) {
      return refusal;
    }
    throw new AssertionError("it was not refused");
  }

  private static void errors(QuireRuntime runtime, Model model, Cache cache) {
    QuireException missing = refused(() -> runtime.loadModel("/no/such/model"));
    check(missing.code() == QuireNativeConstants.QUIRE_ERROR_NOT_FOUND, missing.codeName());
    check(missing.getMessage().contains("/no/such/model"), missing.getMessage());
    QuireException range = refused(() -> cache.submit(greedy("a", -1)));
    check(range.codeName().equals("invalid_argument"), range.codeName());
  }

  private static void closeWhileWaiting(QuireRuntime runtime, Model model, Cache cache) throws Exception {
    Job job = cache.submit(greedy("Once upon a time", 1000));
    CompletableFuture<Void> reader = CompletableFuture.runAsync(() -> {
      while (job.next().isPresent()) {}
    });
    job.close();
    reader.handle((done, error) -> done).get(30, TimeUnit.SECONDS);
  }

  private static void closedRefuses(QuireRuntime runtime, Model model, Cache cache) {
    Model other = model;
    other.close();
    other.close();
    try {
      other.encode("a", true, false);
    } catch (IllegalStateException closed) {
      return;
    }
    throw new AssertionError("a closed model encodes");
  }
}
