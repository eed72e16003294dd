package story;

import static story.Fixture.check;
import static story.Fixture.drain;
import static story.Fixture.greedy;
import static story.Fixture.refused;

import dev.quire.CacheOptions;
import dev.quire.ErrorCode;
import dev.quire.FinishReason;
import dev.quire.Job;
import dev.quire.Model;
import dev.quire.QuireException;
import dev.quire.Quota;
import dev.quire.Request;
import dev.quire.Stats;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/**
 * The Java binding on the embedded model: the same greedy text as the command, an emoji in input and output,
 * a cancelled job, an error message, and handles closed in the wrong order. Arguments: the model, a file with
 * the prompt, a file with the expected text.
 */
public final class StoryTest {
  private StoryTest() {}

  public static void main(String[] arguments) throws Exception {
    Fixture.run(arguments, "streams the text of the command", StoryTest::streams);
    Fixture.run(arguments, "text survives the tokenizer", StoryTest::textSurvives);
    Fixture.run(arguments, "cancel ends one job and no other", StoryTest::cancels);
    Fixture.run(arguments, "errors name the fault", StoryTest::errors);
    Fixture.run(arguments, "a forgotten prompt is refused", StoryTest::forgottenPrompt);
    Fixture.run(arguments, "a namespace is Unicode in every call", StoryTest::namespaces);
    Fixture.run(arguments, "close ends the wait of another thread", StoryTest::closeWhileWaiting);
    Fixture.run(arguments, "closed objects refuse", StoryTest::closedRefuses);
  }

  private static void streams(Fixture with) {
    try (Job job = with.cache.submit(greedy(with.prompt, 48))) {
      String text = drain(job, FinishReason.LENGTH);
      check(text.equals(with.expected), "expected \"" + with.expected + "\", got \"" + text + "\"");
    }
  }

  private static void textSurvives(Fixture with) {
    for (String text : new String[] {"", "a 🙂 b", "zero\0byte", with.prompt}) {
      String decoded = with.model.decode(with.model.encode(text, true, false), true);
      check(decoded.equals(text), "\"" + text + "\" came back as \"" + decoded + "\"");
    }
  }

  private static void cancels(Fixture with) {
    Job cancelled = with.cache.submit(greedy("Once upon a time", 1000));
    Job neighbour = with.cache.submit(greedy(with.prompt, 48));
    cancelled.next();
    cancelled.cancel();
    drain(cancelled, FinishReason.CANCELLED);
    check(drain(neighbour, FinishReason.LENGTH).equals(with.expected), "the neighbour changed");
    cancelled.close();
    neighbour.close();
  }

  private static void errors(Fixture with) {
    QuireException missing = refused(() -> with.runtime.loadModel("/no/such/model"));
    check(missing.code() == ErrorCode.NOT_FOUND, missing.codeName());
    check(missing.getMessage().contains("/no/such/model"), missing.getMessage());
    QuireException range = refused(() -> with.cache.submit(greedy("a", -1)));
    check(range.codeName().equals("invalid_argument"), range.codeName());
    check(range.parameter().equals("max_new_tokens"), range.parameter());
    check(missing.parameter().isEmpty(), missing.parameter());
    Fixture.checkRefused("encoding", "surrogate", () -> with.model.encode("a\ud800", true, false));
    Fixture.checkRefused("encoding", "surrogate", () -> with.cache.submit(greedy("\udc00", 1)));
  }

  private static void forgottenPrompt(Fixture with) {
    Fixture.checkRefused("invalid_argument", "prompt", () -> with.cache.submit(new Request().maxNewTokens(1)));
  }

  private static void namespaces(Fixture with) {
    String broken = "caf\ud800";
    Fixture.checkRefused("encoding", "surrogate", () -> greedy("a", 1).namespace(broken));
    Fixture.checkRefused("encoding", "surrogate", () -> new CacheOptions().namespaceWeight(broken, 2));
    Fixture.checkRefused("encoding", "surrogate", () -> new CacheOptions().namespaceQuota(broken, Quota.PAGES, 1));
    Fixture.checkRefused("encoding", "surrogate", () -> with.cache.setNamespaceWeight(broken, 2));
    Fixture.checkRefused("encoding", "surrogate", () -> with.cache.setNamespaceQuota(broken, Quota.PAGES, 1));
    String name = "café 🙂";
    try (Job job = with.cache.submit(greedy("a", 1).namespace(name))) {
      drain(job, FinishReason.LENGTH);
      Stats own = with.cache.stats().namespaces().get(name);
      check(own != null && own.jobsFinished() == 1, with.cache.stats().namespaces().keySet());
    }
  }

  private static void closeWhileWaiting(Fixture with) throws Exception {
    Job job = with.cache.submit(greedy("Once upon a time", 1000));
    CompletableFuture<Void> reader = CompletableFuture.runAsync(() -> {
      while (job.next().isPresent()) {}
    });
    job.close();
    reader.handle((done, error) -> done).get(30, TimeUnit.SECONDS);
  }

  private static void closedRefuses(Fixture with) {
    Model other = with.model;
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
