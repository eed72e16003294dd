package story;

import static story.Fixture.check;
import static story.Fixture.checkRefused;
import static story.Fixture.drain;
import static story.Fixture.greedy;

import dev.quire.Alias;
import dev.quire.Cache;
import dev.quire.CacheOptions;
import dev.quire.ChatTemplate;
import dev.quire.Constraint;
import dev.quire.Event;
import dev.quire.FinishReason;
import dev.quire.Job;
import dev.quire.JobState;
import dev.quire.Model;
import dev.quire.ReasoningStart;
import dev.quire.ResponseEvent;
import dev.quire.ResponseKind;
import dev.quire.ResponseParser;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;

/** Answers parsed into text and calls, and models exchanged through an alias. */
public final class ResponsesTest {
  private static final String TOOLS = "[{\"type\": \"function\", \"function\": {\"name\": \"say\", \"parameters\": "
      + "{\"type\": \"object\", \"properties\": {\"word\": {\"enum\": [\"once\", \"upon\"]}}, \"required\": [\"word\"], "
      + "\"additionalProperties\": false}}}]";

  private ResponsesTest() {}

  public static void main(String[] arguments) throws Exception {
    Fixture.run(arguments, "an answer is parsed into text and calls", ResponsesTest::reads);
    Fixture.run(arguments, "the dialect follows from the template", ResponsesTest::detects);
    Fixture.run(arguments, "a job is constrained to a call", ResponsesTest::constrains);
    Fixture.run(arguments, "a model is exchanged while jobs run", ResponsesTest::exchanges);
    Fixture.run(arguments, "an alias uses its fallback and reports why", ResponsesTest::fallsBack);
  }

  private static List<ResponseEvent> events(ResponseParser parser, String... pieces) {
    List<ResponseEvent> events = new ArrayList<>();
    for (String piece : pieces) {
      parser.feed(piece);
      while (parser.next()) {
        events.add(parser.event());
      }
    }
    parser.finish();
    while (parser.next()) {
      events.add(parser.event());
    }
    return events;
  }

  /** Returns the joined text of the events of a kind. */
  private static String texts(List<ResponseEvent> events, ResponseKind kind) {
    StringBuilder text = new StringBuilder();
    events.stream().filter(event -> event.kind() == kind).forEach(event -> text.append(event.text()));
    return text.toString();
  }

  private static void reads(Fixture with) {
    String answer = "<think>é?</think>Well.\n<tool_call>\n{\"name\": \"say\", \"arguments\": {\"word\": \"upon\"}}\n"
        + "</tool_call>";
    ByteArrayOutputStream raw = new ByteArrayOutputStream();
    try (ResponseParser parser = ResponseParser.create("hermes")) {
      parser.setTools(TOOLS);
      List<ResponseEvent> events = events(parser, answer.substring(0, 20), answer.substring(20, 51), answer.substring(51));
      events.forEach(event -> raw.writeBytes(event.raw()));
      check(raw.toString(StandardCharsets.UTF_8).equals(answer), raw);
      check(texts(events, ResponseKind.TEXT).equals("Well."), events);
      check(texts(events, ResponseKind.REASONING).equals("é?"), events);
      check(texts(events, ResponseKind.ARGUMENTS).equals("{\"word\": \"upon\"}"), events);
      ResponseEvent begin = events.stream().filter(event -> event.kind() == ResponseKind.CALL_BEGIN).findFirst().orElseThrow();
      check(begin.name().equals("say") && begin.callIndex() == 0, begin);
      check(events.stream().filter(event -> event.kind() == ResponseKind.CALL_END).count() == 1, events);
      checkRefused("invalid_argument", "", () -> parser.feed("more"));
    }
    checkRefused("not_found", "hermes", () -> ResponseParser.create("nobody's"));
    check(ResponseParser.dialects().lines().count() >= 10, ResponseParser.dialects());
    try (ResponseParser open = ResponseParser.create("hermes"); ResponseParser begun = ResponseParser.create("hermes")) {
      open.setReasoning(ReasoningStart.OPEN);
      begun.setPrompt("<|im_start|>assistant\n<think>\n");
      for (ResponseParser parser : List.of(open, begun)) {
        ResponseEvent first = events(parser, "so</think>then").get(0);
        check(first.kind() == ResponseKind.REASONING && first.text().equals("so"), first);
      }
    }
  }

  private static void detects(Fixture with) {
    try (ChatTemplate hermes = ChatTemplate.create("{{ '<tool_call>{\"name\": ' }}");
        ChatTemplate plain = ChatTemplate.create("{{ messages }}")) {
      check(hermes.dialect(null).equals("hermes") && plain.dialect(null).equals("plain"), hermes.dialect(null));
      check(hermes.dialect(with.model).equals("hermes"), hermes.dialect(with.model));
    }
  }

  /**
   * Checks that a parser of the same dialect reads the output of a constraint, and that the job itself does
   * too.
   */
  private static void constrains(Fixture with) {
    String rules = "{\"dialect\": \"hermes\", \"tools\": " + TOOLS
        + ", \"tool_choice\": \"required\", \"parallel_tool_calls\": false, \"reasoning\": \"off\"}";
    try (Constraint constraint = with.model.createResponseConstraint(rules);
        Job job = with.cache.submit(greedy("Once", 200).constraint(constraint).responseDialect("hermes")
            .reasoning(ReasoningStart.OFF));
        ResponseParser parser = ResponseParser.create("hermes")) {
      parser.setReasoning(ReasoningStart.OFF);
      StringBuilder answer = new StringBuilder();
      List<Event> read = new ArrayList<>();
      job.forEach(event -> {
        answer.append(event.text());
        read.add(event);
      });
      List<ResponseEvent> events = events(parser, answer.toString());
      checkRead(read, texts(events, ResponseKind.ARGUMENTS));
      check(texts(events, ResponseKind.ARGUMENTS).matches("\\{\\s*\"word\"\\s*:\\s*\"(once|upon)\"\\s*}"), answer);
      check(events.stream().filter(event -> event.kind() == ResponseKind.CALL_END).count() == 1, answer);
    }
    try (Job job = with.cache.submit(greedy("Once", 30).ignoreEos(true).responseDialect("hermes")
        .reasoning(ReasoningStart.OPEN).reasoningBudget(0))) {
      String text = drain(job, FinishReason.LENGTH).strip();
      check(text.startsWith("</think>"), text);
    }
    checkRefused("not_found", "hermes", () -> with.cache.submit(greedy("Once", 1).responseDialect("nobody's")));
    checkRefused("unsupported", "plain",
        () -> with.model.createResponseConstraint("{\"dialect\": \"plain\", \"tools\": " + TOOLS + "}"));
  }

  private static void checkRead(List<Event> events, String arguments) {
    StringBuilder text = new StringBuilder();
    int edges = 0;
    for (Event event : events) {
      boolean isEdge = event.responseKind() == ResponseKind.CALL_BEGIN || event.responseKind() == ResponseKind.CALL_END;
      check(event.callName().equals(isEdge ? "say" : "") && event.callId().isEmpty(), event);
      check(event.callIndex() == 0 || event.responseKind() == ResponseKind.MARKUP, event);
      edges += isEdge ? 1 : 0;
      text.append(event.responseKind() == ResponseKind.ARGUMENTS ? event.responseText() : "");
    }
    check(edges == 2 && text.toString().equals(arguments), events);
  }

  private static Cache load(Fixture with) {
    try (Model model = with.runtime.loadModel(with.path)) {
      return model.createCache(2048);
    }
  }

  private static void exchanges(Fixture with) throws Exception {
    try (Alias alias = with.runtime.createAlias("chat")) {
      checkRefused("not_found", "chat", () -> alias.submit(greedy("a", 1)));
      Cache cache = load(with);
      alias.setCache(cache);
      Job running = alias.submit(greedy("Once upon a time", 1500).ignoreEos(true));
      running.next();
      AtomicBoolean over = new AtomicBoolean();
      AtomicBoolean failed = new AtomicBoolean();
      Thread[] submitters = new Thread[4];
      for (int i = 0; i < submitters.length; i++) {
        submitters[i] = new Thread(() -> {
          boolean last = false;
          while (!last && !failed.get()) {
            last = over.get();
            try (Job job = alias.submit(greedy(with.prompt, 8))) {
              check(with.expected.startsWith(drain(job, FinishReason.LENGTH)), "another text");
            } catch (Throwable failure) {
              failure.printStackTrace();
              failed.set(true);
            }
          }
        });
        submitters[i].start();
      }
      for (int i = 0; i < 3; i++) {
        checkRefused("not_found", "", () -> with.runtime.loadModel("/no/such/model")); // changes nothing
        Cache next = load(with);
        alias.setCache(next);
        cache.close();
        cache = next;
      }
      over.set(true);
      for (Thread submitter : submitters) {
        submitter.join();
      }
      check(!failed.get() && alias.numSwaps() == 3, alias.numSwaps());
      check(running.info().state() != JobState.FINISHED, running.info());
      cache.close();
      alias.setCache(null);
      running.cancel();
      drain(running, FinishReason.CANCELLED);
      running.close();
      Cache closed = cache;
      try {
        alias.setCache(closed);
        throw new AssertionError("a closed cache is taken");
      } catch (IllegalStateException refused) {
        // expected
      }
    }
  }

  private static void fallsBack(Fixture with) {
    Alias alias = with.runtime.createAlias("chat");
    try (Cache cache = with.model.createCache(new CacheOptions().maxTokens(2048))) {
      alias.addFallback(cache);
    }
    with.model.close();
    with.runtime.close();
    Job job = alias.submit(greedy(with.prompt, 48)); // the alias keeps the objects that it needs
    check(alias.numFallbacks() == 1 && !alias.reason().isEmpty(), alias.reason());
    alias.clearFallbacks();
    checkRefused("not_found", "", () -> alias.submit(greedy("a", 1)));
    alias.close();
    check(drain(job, FinishReason.LENGTH).equals(with.expected), "another text");
    job.close();
  }
}
