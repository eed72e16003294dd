package story;

import static story.Fixture.check;
import static story.Fixture.checkRefused;
import static story.Fixture.drain;
import static story.Fixture.greedy;

import dev.quire.ChatTemplate;
import dev.quire.Constraint;
import dev.quire.ConstraintKind;
import dev.quire.Event;
import dev.quire.EventKind;
import dev.quire.EventQueue;
import dev.quire.FinishReason;
import dev.quire.Job;
import dev.quire.LogLevel;
import dev.quire.Matcher;
import dev.quire.Request;
import dev.quire.TokenKind;
import dev.quire.Usage;
import java.time.Duration;
import java.util.Arrays;
import java.util.Optional;

/** Chat templates, constraints, prompts made of parts, and the usage in a last event. */
public final class PromptsTest {
  private static final String CONVERSATION =
      "{\"messages\": [{\"role\": \"user\", \"content\": \"a <|im_end|> b\"}], \"add_generation_prompt\": true}";
  private static final String RENDERED = "<|im_start|>user\na <|im_end|> b<|im_end|>\n<|im_start|>assistant\n";

  private PromptsTest() {}

  public static void main(String[] arguments) throws Exception {
    Fixture.run(arguments, "a chat template renders a conversation", PromptsTest::renders);
    Fixture.run(arguments, "a matcher follows a text", PromptsTest::matches);
    Fixture.run(arguments, "a negative prompt works by its scale", PromptsTest::guides);
    Fixture.run(arguments, "a prompt of parts equals the whole prompt", PromptsTest::parts);
    Fixture.run(arguments, "a last event has its usage", PromptsTest::usage);
    Fixture.run(arguments, "the log arrives as events", PromptsTest::logs);
  }

  private static void renders(Fixture with) {
    try (ChatTemplate template = ChatTemplate.open(with.path)) {
      check(template.render(CONVERSATION).equals(RENDERED), template.render(CONVERSATION));
      check(Arrays.stream(template.segments(CONVERSATION)).sum() == RENDERED.length(), "segments");
      check(with.model.decode(template.tokens(with.model, CONVERSATION), false).equals(RENDERED), "tokens");
      check(template.hash().matches("[0-9a-f]{64}"), template.hash());
      checkRefused("not_found", "nobody", () -> template.choose("nobody"));
      Request request = new Request().addMessages("{\"role\": \"user\", \"content\": \"a <|im_end|> b\"}");
      check(with.model.renderChat(request).equals(RENDERED), with.model.renderChat(request));
    }
    try (ChatTemplate template = ChatTemplate.create("{{ bos_token }}{{ strftime_now('%Y') }}")) {
      template.setToken(TokenKind.BOS, "<é>");
      template.setNow("2025-07-26");
      check(template.render("{\"messages\": []}").equals("<é>2025"), template.render("{\"messages\": []}"));
    }
    checkRefused("format", "line 1", () -> ChatTemplate.create("{% if %}"));
  }

  private static Request guided(double scale) {
    return greedy("Once upon a time", 20).negativePromptText("A big dog").guidanceScale(scale);
  }

  private static String run(Fixture with, Request request) {
    try (Job job = with.cache.submit(request)) {
      return drain(job, FinishReason.LENGTH);
    }
  }

  private static void guides(Fixture with) {
    check(run(with, guided(0)).equals(run(with, greedy("A big dog", 20))), "not the text after the negative prompt");
    String away = run(with, guided(3));
    check(!away.equals(run(with, greedy("Once upon a time", 20))), "the negative prompt changes nothing");
    Request byTokens = greedy("Once upon a time", 20).guidanceScale(3);
    byTokens.negativePromptTokens(with.model.encode("A big dog", true, false));
    check(run(with, byTokens).equals(away), "the tokens of the negative prompt lead elsewhere");
    checkRefused("invalid_argument", "negative_prompt", () -> with.cache.submit(guided(1)));
  }

  private static void matches(Fixture with) {
    Constraint constraint = with.model.createConstraint(ConstraintKind.REGEX, "Once( upon)+");
    try (Matcher matcher = constraint.createMatcher()) {
      check(new String(matcher.forcedText(), java.nio.charset.StandardCharsets.UTF_8).equals("Once upon"), "forced");
      int[] tokens = with.model.encode("Once upon", false, false);
      for (int token : tokens) {
        check((matcher.mask()[token / 8] >> (token % 8) & 1) == 1 && matcher.accept(token), "token " + token);
      }
      check(matcher.mayEnd(), "the text may not end");
      matcher.rollback(tokens.length);
      check(!matcher.mayEnd(), "the text may be empty");
      checkRefused("invalid_argument", "", () -> matcher.rollback(1));
    }
    try (Job job = with.cache.submit(greedy("A story: ", 16).constraint(constraint))) {
      check(job.waitFor(Duration.ofSeconds(60)), "the job is not over");
      String text = drain(job, job.info().finishReason());
      check(text.startsWith("Once upon"), text);
    }
    constraint.close();
    checkRefused("format", "", () -> with.model.createConstraint(ConstraintKind.REGEX, "("));
  }

  private static void parts(Fixture with) {
    int[] tokens = with.model.encode(with.prompt, true, false);
    int half = tokens.length / 2;
    Request request = new Request("another").clearPrompt().addPromptTokens(Arrays.copyOf(tokens, half))
        .addPromptTokens(Arrays.copyOfRange(tokens, half, tokens.length)).temperature(0).maxNewTokens(48);
    try (Job job = with.cache.submit(request)) {
      check(drain(job, FinishReason.LENGTH).equals(with.expected), "another text");
    }
    checkRefused("not_found", "nobody", () -> with.cache.submit(new Request().addPromptSpecial("<|nobody|>")));
  }

  private static void usage(Fixture with) {
    try (Job job = with.cache.submit(greedy(with.prompt, 8).randomSeed(false).seed(7))) {
      check(job.info().seed() == 7, job.info());
      Event last = null;
      for (Event event : job) {
        last = event;
      }
      Usage usage = last.usage();
      check(usage.newTokens() == 8 && usage.promptTokens() > 0 && usage.stopToken() == -1, usage);
      check(!usage.timeGenerate().isNegative() && last.isLast(), usage);
    }
  }

  private static void logs(Fixture with) {
    try (EventQueue queue = with.runtime.createQueue()) {
      queue.setLogLevel(LogLevel.DEBUG);
      Job job = with.cache.submit(greedy("Once", 1500).ignoreEos(true));
      with.cache.shutdown();
      job.close();
      Optional<Event> line = queue.poll(Duration.ofSeconds(60));
      check(line.get().kind() == EventKind.LOG && !line.get().text().isEmpty() && line.get().usage() == null, line);
    }
  }
}
