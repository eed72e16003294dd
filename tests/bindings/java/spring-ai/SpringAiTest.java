package story;

import static story.Fixture.check;
import static story.Fixture.checkRefused;
import static story.Fixture.drain;

import dev.quire.ChatEngine;
import dev.quire.ChatTemplate;
import dev.quire.FinishReason;
import dev.quire.Job;
import dev.quire.JobKind;
import dev.quire.QuireException;
import dev.quire.Request;
import dev.quire.springai.QuireChatModel;
import dev.quire.springai.QuireChatOptions;
import dev.quire.springai.NativeLibraryFailureAnalyzer;
import dev.quire.springai.QuireEmbeddingModel;
import dev.quire.springai.QuireFailureAnalyzer;
import dev.quire.springai.QuireMetrics;
import dev.quire.springai.QuireProperties;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import java.io.InputStream;
import java.lang.reflect.RecordComponent;
import java.net.URI;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.springframework.ai.chat.messages.AssistantMessage;
import org.springframework.ai.chat.messages.SystemMessage;
import org.springframework.ai.chat.messages.ToolResponseMessage;
import org.springframework.ai.chat.messages.UserMessage;
import org.springframework.ai.chat.model.ChatModel;
import org.springframework.ai.chat.model.ChatResponse;
import org.springframework.ai.chat.model.MessageAggregator;
import org.springframework.ai.chat.prompt.ChatOptions;
import org.springframework.ai.chat.prompt.Prompt;
import org.springframework.ai.content.Media;
import org.springframework.ai.document.Document;
import org.springframework.ai.embedding.EmbeddingModel;
import org.springframework.ai.embedding.EmbeddingOptions;
import org.springframework.ai.embedding.EmbeddingRequest;
import org.springframework.ai.embedding.EmbeddingResponse;
import org.springframework.ai.tool.ToolCallback;
import org.springframework.ai.tool.definition.ToolDefinition;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.Banner;
import org.springframework.boot.diagnostics.FailureAnalysis;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Configuration;
import org.springframework.util.MimeTypeUtils;
import reactor.core.Disposable;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/** The interfaces of Spring AI on the embedded model, compared with jobs of the Java layer. */
public final class SpringAiTest {
  /** A template of a model family that writes calls in the hermes dialect. */
  private static final String TEMPLATE = "{% for tool in tools or [] %}<tool_call>{{ tool | tojson }}</tool_call>\n{% endfor %}"
      + "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content or '' }}"
      + "{% for call in message.tool_calls or [] %}{{ call.function | tojson }}{% endfor %}<|im_end|>\n{% endfor %}"
      + "<|im_start|>assistant\n";
  private static final String CITY = "{\"type\": \"object\", \"properties\": {\"city\": {\"type\": \"string\", \"enum\": "
      + "[\"Oslo\", \"Rome\"]}}, \"required\": [\"city\"], \"additionalProperties\": false}";
  private static final String WEATHER_JSON =
      "[{\"type\": \"function\", \"function\": {\"name\": \"weather\", \"description\": \"How warm it is\", \"parameters\": "
          + CITY + "}}]";
  private static final UserMessage QUESTION = new UserMessage("How warm is it?");

  private SpringAiTest() {}

  public static void main(String[] arguments) throws Exception {
    Fixture.run(arguments, "an answer equals that of the job, whole and streamed", SpringAiTest::texts);
    Fixture.run(arguments, "tools are called, and their results read", SpringAiTest::calls);
    Fixture.run(arguments, "an answer matches its schema", SpringAiTest::formats);
    Fixture.run(arguments, "reasoning is separated from the answer", SpringAiTest::thinks);
    Fixture.run(arguments, "a stream follows its demand, and a cancel ends the job", SpringAiTest::cancels);
    Fixture.run(arguments, "failures have code and line", SpringAiTest::failures);
    Fixture.run(arguments, "vectors equal those of the jobs", SpringAiTest::embeds);
    Fixture.run(arguments, "an application has the models that its properties name", SpringAiTest::configures);
    Fixture.run(arguments, "metadata describes each property", SpringAiTest::describes);
    Fixture.run(arguments, "a failure to start names the property to change", SpringAiTest::analyzes);
    Fixture.run(arguments, "meters follow the cache", SpringAiTest::measures);
    System.exit(0); // otherwise Reactor's threads would keep the program alive
  }

  private static QuireChatOptions.Builder greedy(int maxTokens) {
    return QuireChatOptions.builder().temperature(0.0).maxTokens(maxTokens);
  }

  private static ToolCallback weather() {
    return new ToolCallback() {
      @Override
      public ToolDefinition getToolDefinition() {
        return ToolDefinition.builder().name("weather").description("How warm it is").inputSchema(CITY).build();
      }

      @Override
      public String call(String arguments) {
        throw new AssertionError("the caller runs the tools");
      }
    };
  }

  /** Returns a stream as Spring AI's own aggregator joins it. */
  private static ChatResponse joined(ChatModel model, Prompt prompt) {
    List<ChatResponse> whole = new ArrayList<>();
    new MessageAggregator().aggregate(model.stream(prompt), whole::add).blockLast(Duration.ofMinutes(2));
    check(whole.size() == 1, whole);
    return whole.get(0);
  }

  private static void texts(Fixture with) {
    Request same = new Request().addMessages("[{\"role\": \"system\", \"content\": \"Speak.\"}, "
        + "{\"role\": \"user\", \"content\": \"How warm is it?\"}]").temperature(0).maxNewTokens(24);
    String expected;
    try (Job job = with.cache.submit(same)) {
      expected = drain(job, FinishReason.LENGTH);
    }
    ChatModel model = new QuireChatModel(ChatEngine.of(with.model, with.cache), greedy(24).build());
    Prompt prompt = new Prompt(List.of(new SystemMessage("Speak."), QUESTION));
    ChatResponse whole = model.call(prompt);
    String text = whole.getResult().getOutput().getText();
    check(text.strip().equals(expected.strip()), text);
    check(whole.getResult().getMetadata().getFinishReason().equals("LENGTH"), whole);
    check(whole.getMetadata().getUsage().getCompletionTokens() == 24, whole);
    check(whole.getMetadata().getUsage().getPromptTokens() == with.model.renderChatTokens(same).length, whole);
    ChatResponse stream = joined(model, prompt);
    check(stream.getResult().getOutput().getText().equals(text), stream);
    check(stream.getMetadata().getUsage().getTotalTokens().equals(whole.getMetadata().getUsage().getTotalTokens()), stream);
    String word = expected.strip().split("\\s+")[3];
    ChatResponse stopped = model.call(new Prompt(List.of(new SystemMessage("Speak."), QUESTION),
        ChatOptions.builder().stopSequences(List.of(word)).build()));
    check(stopped.getResult().getMetadata().getFinishReason().equals("STOP"), stopped);
    check(!stopped.getResult().getOutput().getText().contains(word), stopped);
    QuireChatOptions drawn = QuireChatOptions.builder().temperature(1.0).maxTokens(24).seed(7L).build();
    check(model.call(new Prompt(QUESTION, drawn)).getResult().equals(model.call(new Prompt(QUESTION, drawn)).getResult()),
        "one seed, two answers");
  }

  private static int tokensOf(ChatEngine engine, String messages, String tools) {
    try (ChatTemplate chat = ChatTemplate.create(TEMPLATE)) {
      Request request = new Request().addMessages(messages).chatTemplate(chat);
      return engine.model().renderChatTokens(tools == null ? request : request.tools(tools)).length;
    }
  }

  private static void calls(Fixture with) {
    try (ChatTemplate chat = ChatTemplate.create(TEMPLATE);
        ChatEngine engine = ChatEngine.of(with.model, with.cache).chatTemplate(chat).thinks(false)) {
      QuireChatOptions options = greedy(200).toolCallbacks(weather()).toolChoice("required").parallelToolCalls(false).build();
      ChatModel model = new QuireChatModel(engine);
      String question = "[{\"role\": \"user\", \"content\": \"How warm is it?\"}]";
      ChatResponse whole = model.call(new Prompt(QUESTION, options));
      AssistantMessage.ToolCall call = onlyCall(whole);
      check(onlyCall(joined(model, new Prompt(QUESTION, options))).arguments().equals(call.arguments()), call);
      check(whole.getMetadata().getUsage().getPromptTokens() == tokensOf(engine, question, WEATHER_JSON), whole);
      onlyCall(model.call(new Prompt(QUESTION, options.mutate().toolChoice("weather").build())));
      ChatResponse none = model.call(new Prompt(QUESTION, options.mutate().toolChoice("none").maxTokens(4).build()));
      check(none.getMetadata().getUsage().getPromptTokens() == tokensOf(engine, question, null), none);
      ChatResponse next = model.call(new Prompt(List.of(QUESTION, whole.getResult().getOutput(), ToolResponseMessage.builder()
          .responses(List.of(new ToolResponseMessage.ToolResponse(call.id(), "weather", "17 degrees"))).build()),
          greedy(4).toolCallbacks(weather()).build()));
      String said = "[{\"role\": \"user\", \"content\": \"How warm is it?\"}, {\"role\": \"assistant\", \"content\": \"\", "
          + "\"tool_calls\": [{\"id\": \"x\", \"type\": \"function\", \"function\": {\"name\": \"weather\", \"arguments\": \""
          + call.arguments().replace("\"", "\\\"") + "\"}}]}, {\"role\": \"tool\", \"content\": \"17 degrees\"}]";
      check(next.getMetadata().getUsage().getPromptTokens() == tokensOf(engine, said, WEATHER_JSON), next);
    }
  }

  private static AssistantMessage.ToolCall onlyCall(ChatResponse response) {
    List<AssistantMessage.ToolCall> calls = response.getResult().getOutput().getToolCalls();
    check(response.hasToolCalls() && calls.size() == 1 && calls.get(0).name().equals("weather"), response);
    check(calls.get(0).arguments().matches("\\{\\s*\"city\"\\s*:\\s*\"(Oslo|Rome)\"\\s*}"), calls);
    check(response.hasFinishReasons(java.util.Set.of("TOOL_CALLS")) && !calls.get(0).id().isEmpty(), response);
    return calls.get(0);
  }

  private static void formats(Fixture with) {
    ChatModel model = new QuireChatModel(ChatEngine.of(with.model, with.cache), greedy(100).outputSchema(CITY).build());
    String place = model.call("Where is it?");
    check(place.matches("\\{\\s*\"city\"\\s*:\\s*\"(Oslo|Rome)\"\\s*}"), place);
  }

  private static void thinks(Fixture with) {
    try (ChatTemplate chat = ChatTemplate.create(TEMPLATE + "<think>\n");
        ChatEngine engine = ChatEngine.of(with.model, with.cache).chatTemplate(chat)) {
      ChatModel model = new QuireChatModel(engine, greedy(12).build());
      AssistantMessage message = model.call(new Prompt(QUESTION)).getResult().getOutput();
      String thought = (String) message.getMetadata().get("reasoningContent");
      check(!thought.isEmpty() && message.getText().isEmpty(), message);
      StringBuilder pieces = new StringBuilder();
      model.stream(new Prompt(QUESTION)).toStream().forEach(piece ->
          pieces.append(piece.getResult().getOutput().getMetadata().getOrDefault("reasoningContent", "")));
      check(pieces.toString().equals(thought), pieces);
    }
  }

  private static void awaitIdle(Fixture with) {
    while (with.cache.stats().jobsRunning() > 0) {
      Thread.onSpinWait();
    }
  }

  private static void cancels(Fixture with) {
    ChatModel model = new QuireChatModel(ChatEngine.of(with.model, with.cache), greedy(1500).build());
    List<ChatResponse> first = model.stream(new Prompt(QUESTION)).take(2).collectList().block(Duration.ofMinutes(2));
    check(first.size() == 2, first);
    awaitIdle(with);
    check(with.cache.stats().newTokens() < 1500, with.cache.stats());
    Disposable running = model.stream(new Prompt(QUESTION)).subscribe();
    running.dispose();
    long newTokens = with.cache.stats().newTokens();
    awaitIdle(with);
    check(with.cache.stats().newTokens() <= newTokens + 1, newTokens + " tokens, then " + with.cache.stats());
  }

  private static void failures(Fixture with) {
    ChatEngine engine = ChatEngine.of(with.model, with.cache);
    ChatModel model = new QuireChatModel(engine, greedy(4).build());
    checkRefused("invalid_argument", "temperature",
        () -> model.call(new Prompt(QUESTION, ChatOptions.builder().temperature(-1.0).build())));
    checkRefused("too_large", "", () -> model.call("very ".repeat(4000)));
    checkRefused("unsupported", "", () -> model.call(
        new Prompt(QUESTION, QuireChatOptions.builder().toolCallbacks(weather()).toolChoice("required").build())));
    try {
      model.call(UserMessage.builder().text("What is it?")
          .media(new Media(MimeTypeUtils.IMAGE_PNG, URI.create("http://localhost/"))).build());
      throw new AssertionError("an image is taken");
    } catch (UnsupportedOperationException refused) {
      check(refused.getMessage().contains("image/png"), refused);
    }
    List<Throwable> told = new ArrayList<>();
    model.stream(new Prompt(QUESTION, ChatOptions.builder().temperature(-1.0).build()))
        .doOnError(told::add).onErrorComplete().blockLast(Duration.ofMinutes(1));
    check(told.size() == 1 && told.get(0) instanceof QuireException, told);
    with.cache.shutdown();
    checkRefused("closed", "", () -> model.call("hello"));
  }

  private static void embeds(Fixture with) {
    EmbeddingModel model = new QuireEmbeddingModel(ChatEngine.of(with.model, with.cache));
    List<String> texts = List.of("a king", "a dog that barks");
    EmbeddingResponse made = model.embedForResponse(texts);
    long numTokens = 0;
    for (int i = 0; i < texts.size(); i++) {
      try (Job job = with.cache.submit(new Request(texts.get(i)).kind(JobKind.EMBED))) {
        drain(job, FinishReason.COMPLETED);
        check(Arrays.equals(made.getResults().get(i).getOutput(), job.embedding()), texts.get(i));
        numTokens += job.info().promptTokens();
      }
    }
    check(made.getMetadata().getUsage().getPromptTokens() == numTokens, made.getMetadata());
    check(model.dimensions() == made.getResult().getOutput().length, model.dimensions());
    check(Arrays.equals(model.embed(new Document("a king")), made.getResult().getOutput()), "another vector");
    try {
      model.call(new EmbeddingRequest(texts, EmbeddingOptions.builder().dimensions(3).build()));
      throw new AssertionError("vectors are cut");
    } catch (IllegalArgumentException refused) {
      check(refused.getMessage().startsWith("dimensions: 3"), refused);
    }
  }

  @Configuration
  @EnableAutoConfiguration
  public static class Application {}

  private static ConfigurableApplicationContext application(String... properties) {
    SpringApplication application = new SpringApplication(Application.class);
    application.setWebApplicationType(WebApplicationType.NONE);
    application.setBannerMode(Banner.Mode.OFF);
    application.setLogStartupInfo(false);
    return application.run(Arrays.stream(properties).map(property -> "--" + property).toArray(String[]::new));
  }

  private static void configures(Fixture with) {
    try (ConfigurableApplicationContext context = application("spring.ai.quire.path=" + with.path,
        "spring.ai.quire.temperature=0", "spring.ai.quire.max-tokens=8", "spring.ai.quire.cache-tokens=1024")) {
      ChatResponse response = context.getBean(ChatModel.class).call(new Prompt(QUESTION));
      check(response.getMetadata().getUsage().getCompletionTokens() == 8, response);
      check(response.getMetadata().getModel().equals(with.path), response);
      check(context.getBean(EmbeddingModel.class).dimensions() > 0, "no dimensions");
      check(context.getBean(ChatEngine.class).cache().maxSeqLen() <= 1024, "the cache has its default size");
    }
    try (ConfigurableApplicationContext context = application("spring.ai.quire.path=" + with.path,
        "spring.ai.model.chat=another", "spring.ai.quire.cache-tokens=1024")) {
      check(context.getBeansOfType(ChatModel.class).isEmpty(), "another model is named");
    }
    try (ConfigurableApplicationContext context = application()) {
      check(context.getBeansOfType(ChatEngine.class).isEmpty(), "a model without a name in the properties");
    }
  }

  /** Compares names and types with those of the record that Boot binds. */
  private static void describes(Fixture with) throws Exception {
    Map<String, String> described = new TreeMap<>();
    try (InputStream file = QuireProperties.class.getResourceAsStream("/META-INF/spring-configuration-metadata.json")) {
      for (JsonNode property : JsonMapper.shared().readTree(file).get("properties")) {
        check(property.get("description").asString().endsWith("."), property);
        described.put(property.get("name").asString(), property.get("type").asString());
      }
    }
    Map<String, String> bound = new TreeMap<>();
    for (RecordComponent one : QuireProperties.class.getRecordComponents()) {
      bound.put("spring.ai.quire." + one.getName().replaceAll("([A-Z])", "-$1").toLowerCase(java.util.Locale.ROOT),
          one.getType().getName());
    }
    check(described.equals(bound), described + " and " + bound);
  }

  private static void analyzes(Fixture with) {
    try (ConfigurableApplicationContext context = application("spring.ai.quire.path=/no/such/model")) {
      throw new AssertionError("an application without a model: " + context);
    } catch (RuntimeException failed) {
      FailureAnalysis analysis = new QuireFailureAnalyzer().analyze(failed);
      check(analysis.getDescription().contains("not_found: ") && analysis.getDescription().contains("/no/such/model"),
          analysis.getDescription());
      check(analysis.getAction().contains("spring.ai.quire.path"), analysis.getAction());
    }
    NativeLibraryFailureAnalyzer native_ = new NativeLibraryFailureAnalyzer();
    check(native_.analyze(new UnsatisfiedLinkError("no another in java.library.path")) == null, "another library");
    check(native_.analyze(new UnsatisfiedLinkError("no quire_java in java.library.path")).getAction().contains("quire.native.dir"),
        "no way out");
  }

  private static void measures(Fixture with) {
    MeterRegistry registry = new SimpleMeterRegistry();
    ChatEngine engine;
    try (ConfigurableApplicationContext context = application("spring.ai.quire.path=" + with.path,
        "spring.ai.quire.max-tokens=8", "spring.ai.quire.cache-tokens=1024", "spring.ai.quire.temperature=0")) {
      engine = context.getBean(ChatEngine.class);
      context.getBean(QuireMetrics.class).bindTo(registry);
      context.getBean(ChatModel.class).call(new Prompt(QUESTION));
      check(registry.get("quire.tokens").tag("kind", "new").functionCounter().count() == engine.cache().stats().newTokens(), "tokens");
      check(registry.get("quire.tokens").tag("kind", "new").functionCounter().count() > 0, "no tokens");
      check(registry.get("quire.jobs").tag("state", "running").gauge().value() == 0, "jobs");
      check(registry.get("quire.cache.pages").tag("state", "free").gauge().value() > 0, "pages");
    }
    check(Double.isNaN(registry.get("quire.jobs").tag("state", "queued").gauge().value()), "a closed cache: " + engine);
  }
}
