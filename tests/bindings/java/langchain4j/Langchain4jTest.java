package story;

import static story.Fixture.check;
import static story.Fixture.drain;
import static story.Fixture.greedy;

import dev.langchain4j.agent.tool.ToolExecutionRequest;
import dev.langchain4j.agent.tool.ToolSpecification;
import dev.langchain4j.data.image.Image;
import dev.langchain4j.data.message.AiMessage;
import dev.langchain4j.data.message.ImageContent;
import dev.langchain4j.data.message.SystemMessage;
import dev.langchain4j.data.message.TextContent;
import dev.langchain4j.data.message.ToolExecutionResultMessage;
import dev.langchain4j.data.message.UserMessage;
import dev.langchain4j.data.segment.TextSegment;
import dev.langchain4j.exception.InvalidRequestException;
import dev.langchain4j.exception.LangChain4jException;
import dev.langchain4j.exception.UnsupportedFeatureException;
import dev.langchain4j.model.chat.listener.ChatModelListener;
import dev.langchain4j.model.chat.listener.ChatModelResponseContext;
import dev.langchain4j.model.chat.request.ChatRequest;
import dev.langchain4j.model.chat.request.ChatRequestParameters;
import dev.langchain4j.model.chat.request.ResponseFormat;
import dev.langchain4j.model.chat.request.ResponseFormatType;
import dev.langchain4j.model.chat.request.ToolChoice;
import dev.langchain4j.model.chat.request.json.JsonEnumSchema;
import dev.langchain4j.model.chat.request.json.JsonObjectSchema;
import dev.langchain4j.model.chat.request.json.JsonSchema;
import dev.langchain4j.model.chat.response.ChatModelStreamingEvent;
import dev.langchain4j.model.chat.response.ChatResponse;
import dev.langchain4j.model.chat.response.CompleteResponse;
import dev.langchain4j.model.chat.response.CompleteToolCall;
import dev.langchain4j.model.chat.response.PartialResponse;
import dev.langchain4j.model.chat.response.PartialResponseContext;
import dev.langchain4j.model.chat.response.PartialThinking;
import dev.langchain4j.model.chat.response.PartialToolCall;
import dev.langchain4j.model.chat.response.StreamingChatResponseHandler;
import dev.langchain4j.model.output.FinishReason;
import dev.quire.ChatEngine;
import dev.quire.ChatTemplate;
import dev.quire.Job;
import dev.quire.JobKind;
import dev.quire.Request;
import dev.quire.langchain4j.QuireChatModel;
import dev.quire.langchain4j.QuireEmbeddingModel;
import dev.quire.langchain4j.QuireScoringModel;
import dev.quire.langchain4j.QuireStreamingChatModel;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Flow;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;

/** The interfaces of langchain4j on the embedded model, compared with jobs of the Java layer. */
public final class Langchain4jTest {
  /** A template of a model family that writes calls in the hermes dialect. */
  private static final String TEMPLATE = "{% for tool in tools or [] %}<tool_call>{{ tool | tojson }}</tool_call>\n{% endfor %}"
      + "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content or '' }}"
      + "{% for call in message.tool_calls or [] %}{{ call.function | tojson }}{% endfor %}<|im_end|>\n{% endfor %}"
      + "<|im_start|>assistant\n";
  private static final UserMessage QUESTION = UserMessage.from("How warm is it?");
  private static final JsonObjectSchema CITY = JsonObjectSchema.builder()
      .addProperty("city", JsonEnumSchema.builder().enumValues("Oslo", "Rome").build())
      .required("city").additionalProperties(false).build();
  private static final ToolSpecification WEATHER = ToolSpecification.builder().name("weather").parameters(CITY).build();
  private static final String WEATHER_JSON = "[{\"type\": \"function\", \"function\": {\"name\": \"weather\", \"parameters\": "
      + "{\"type\": \"object\", \"properties\": {\"city\": {\"type\": \"string\", \"enum\": [\"Oslo\", \"Rome\"]}}, "
      + "\"required\": [\"city\"], \"additionalProperties\": false}}}]";

  private Langchain4jTest() {}

  public static void main(String[] arguments) throws Exception {
    Fixture.run(arguments, "an answer equals that of the job, whole, streamed and as a future", Langchain4jTest::texts);
    Fixture.run(arguments, "a directory is a model", Langchain4jTest::loads);
    Fixture.run(arguments, "the builder sets defaults, which requests override", Langchain4jTest::defaults);
    Fixture.run(arguments, "tools are called, and their results read", Langchain4jTest::calls);
    Fixture.run(arguments, "an answer matches its schema", Langchain4jTest::formats);
    Fixture.run(arguments, "reasoning is separated from the answer", Langchain4jTest::thinks);
    Fixture.run(arguments, "events follow the demand", Langchain4jTest::demand);
    Fixture.run(arguments, "waits block no thread", Langchain4jTest::threads);
    Fixture.run(arguments, "a cancel ends the job and its events", Langchain4jTest::cancels);
    Fixture.run(arguments, "failures are langchain4j's, with code and line", Langchain4jTest::failures);
    Fixture.run(arguments, "an exception of a handler is reported and the stream continues", Langchain4jTest::throwing);
    Fixture.run(arguments, "vectors equal those of the jobs", Langchain4jTest::embeds);
    Fixture.run(arguments, "texts are ordered by the likelihood of the query", Langchain4jTest::scores);
  }

  private interface Body {
    void run(ChatEngine engine) throws Exception;
  }

  /** Runs the body with an engine of a family that calls tools. */
  private static void withCalls(Fixture with, String template, Body body) throws Exception {
    try (ChatTemplate chat = ChatTemplate.create(template);
        ChatEngine engine = ChatEngine.of(with.model, with.cache).chatTemplate(chat).thinks(false)) {
      body.run(engine);
    }
  }

  private static void defaults(Fixture with) {
    ChatRequest others = ChatRequest.builder().messages(QUESTION).topK(9).topP(0.9).build();
    try (ChatEngine engine = ChatEngine.of(with.model, with.cache)) {
      QuireChatModel model = QuireChatModel.builder().engine(engine).defaultRequestParameters(others.parameters())
          .modelName("king").temperature(1.0).topK(5).frequencyPenalty(0.1).presencePenalty(0.2).maxOutputTokens(6)
          .stopSequences(List.of("never said")).toolSpecifications(List.of(WEATHER)).toolChoice(ToolChoice.NONE)
          .responseFormat(ResponseFormat.TEXT).seed(7L).build();
      ChatRequestParameters set = model.defaultRequestParameters();
      check(set.topP() == 0.9 && set.topK() == 5 && set.temperature() == 1.0, set);
      check(set.frequencyPenalty() == 0.1 && set.presencePenalty() == 0.2 && set.maxOutputTokens() == 6, set);
      check(set.stopSequences().equals(List.of("never said")) && set.toolSpecifications().equals(List.of(WEATHER)), set);
      check(set.toolChoice() == ToolChoice.NONE && set.responseFormat().equals(ResponseFormat.TEXT), set);
      ChatRequest asked = ChatRequest.builder().messages(QUESTION).build();
      ChatResponse first = model.chat(asked);
      check(first.metadata().modelName().equals("king") && first.metadata().tokenUsage().outputTokenCount() <= 6, first);
      check(model.chat(asked).aiMessage().equals(first.aiMessage()), "one seed gives two answers");
      ChatResponse fewer = model.chat(ChatRequest.builder().messages(QUESTION).maxOutputTokens(2).build());
      check(fewer.metadata().tokenUsage().outputTokenCount() <= 2, fewer);
    }
  }

  private static ChatRequest.Builder greedyRequest(int maxOutputTokens) {
    return ChatRequest.builder().messages(QUESTION).temperature(0.0).maxOutputTokens(maxOutputTokens);
  }

  /** The events of a stream, in order. */
  private static final class Told implements StreamingChatResponseHandler {
    final StringBuilder text = new StringBuilder();
    final StringBuilder thoughts = new StringBuilder();
    final StringBuilder arguments = new StringBuilder();
    final List<CompleteToolCall> calls = new ArrayList<>();
    final CompletableFuture<ChatResponse> over = new CompletableFuture<>();

    @Override
    public void onPartialResponse(String piece) {
      text.append(piece);
    }

    @Override
    public void onPartialThinking(PartialThinking thought) {
      thoughts.append(thought.text());
    }

    @Override
    public void onPartialToolCall(PartialToolCall call) {
      check(call.index() == calls.size() && call.name().equals("weather") && !call.id().isEmpty(), call);
      arguments.append(call.partialArguments());
    }

    @Override
    public void onCompleteToolCall(CompleteToolCall call) {
      calls.add(call);
    }

    @Override
    public void onCompleteResponse(ChatResponse response) {
      check(over.complete(response), "a second end");
    }

    @Override
    public void onError(Throwable failure) {
      over.completeExceptionally(failure);
    }
  }

  private static Told stream(ChatEngine engine, ChatRequest request) throws Exception {
    Told told = new Told();
    QuireStreamingChatModel.builder().engine(engine).parallelToolCalls(false).build().chat(request, told);
    told.over.get(120, TimeUnit.SECONDS);
    return told;
  }

  private static void texts(Fixture with) throws Exception {
    Request same = new Request().addMessages("[{\"role\": \"system\", \"content\": \"Speak.\"}, "
        + "{\"role\": \"user\", \"name\": \"Ann\", \"content\": \"How warm is it?\"}]").temperature(0).maxNewTokens(24);
    String expected;
    try (Job job = with.cache.submit(same)) {
      expected = drain(job, dev.quire.FinishReason.LENGTH);
    }
    ChatEngine engine = ChatEngine.of(with.model, with.cache);
    ChatRequest request = greedyRequest(24)
        .messages(SystemMessage.from("Speak."), UserMessage.from("Ann", "How warm is it?")).build();
    ChatResponse whole = QuireChatModel.of(engine).chat(request);
    check(whole.aiMessage().text().equals(expected.strip()) || whole.aiMessage().text().equals(expected), whole);
    check(whole.finishReason() == FinishReason.LENGTH && whole.tokenUsage().outputTokenCount() == 24, whole);
    check(whole.tokenUsage().inputTokenCount() == with.model.renderChatTokens(same).length, whole);
    Told told = stream(engine, request);
    check(told.text.toString().equals(whole.aiMessage().text()), told.text);
    check(told.over.get().aiMessage().equals(whole.aiMessage()), told.over.get());
    check(told.over.get().tokenUsage().equals(whole.tokenUsage()), told.over.get());
    check(QuireChatModel.of(engine).chatAsync(request).get().aiMessage().equals(whole.aiMessage()), "another answer");
    String word = expected.strip().split("\\s+")[3];
    ChatResponse stopped = QuireChatModel.of(engine).chat(request.toBuilder().stopSequences(List.of(word)).build());
    check(stopped.finishReason() == FinishReason.STOP && !stopped.aiMessage().text().contains(word), stopped);
    List<ChatResponse> heard = new ArrayList<>();
    QuireChatModel listened = QuireChatModel.builder().engine(engine)
        .defaultRequestParameters(ChatRequest.builder().messages(QUESTION).maxOutputTokens(4).build().parameters())
        .listeners(List.of(new ChatModelListener() {
          @Override
          public void onResponse(ChatModelResponseContext context) {
            heard.add(context.chatResponse());
          }
        })).build();
    ChatResponse told4 = listened.chat(QUESTION);
    check(told4.tokenUsage().outputTokenCount() <= 4 && heard.equals(List.of(told4)), heard);
  }

  private static void loads(Fixture with) {
    try (ChatEngine engine = ChatEngine.load(with.path)) {
      ChatResponse whole = QuireChatModel.of(engine).chat(greedyRequest(8).build());
      check(whole.tokenUsage().outputTokenCount() == 8, whole);
    }
    Fixture.checkRefused("not_found", "/no/such/model", () -> ChatEngine.load("/no/such/model"));
  }

  private static ToolExecutionRequest onlyCall(ChatResponse response) {
    check(response.finishReason() == FinishReason.TOOL_EXECUTION, response);
    List<ToolExecutionRequest> calls = response.aiMessage().toolExecutionRequests();
    check(calls.size() == 1 && calls.get(0).name().equals("weather") && !calls.get(0).id().isEmpty(), calls);
    check(calls.get(0).arguments().matches("\\{\\s*\"city\"\\s*:\\s*\"(Oslo|Rome)\"\\s*}"), calls);
    return calls.get(0);
  }

  private static void calls(Fixture with) throws Exception {
    withCalls(with, TEMPLATE, engine -> {
      QuireChatModel model = QuireChatModel.builder().engine(engine).parallelToolCalls(false).build();
      ChatRequest request = greedyRequest(200).toolSpecifications(WEATHER).toolChoice(ToolChoice.REQUIRED).build();
      ChatResponse whole = model.chat(request);
      ToolExecutionRequest call = onlyCall(whole);
      check(!call.id().equals(onlyCall(model.chat(request)).id()), "two calls have one id");
      Told told = stream(engine, request);
      check(told.arguments.toString().equals(call.arguments()) && told.text.isEmpty(), told.arguments);
      check(told.calls.size() == 1 && told.calls.get(0).toolExecutionRequest().equals(onlyCall(told.over.get())), told.calls);
      check(whole.tokenUsage().inputTokenCount() == tokensOf(engine, "[{\"role\": \"user\", \"content\": \"How warm is it?\"}]",
          true), whole);
      readsResults(engine, model, call);
      ChatResponse none = model.chat(request.toBuilder().toolChoice(ToolChoice.NONE).maxOutputTokens(4).build());
      check(none.tokenUsage().inputTokenCount() == tokensOf(engine, "[{\"role\": \"user\", \"content\": \"How warm is it?\"}]",
          false), none);
      check(!none.aiMessage().hasToolExecutionRequests(), none);
    });
  }

  private static void readsResults(ChatEngine engine, QuireChatModel model, ToolExecutionRequest call) {
    ChatResponse next = model.chat(greedyRequest(4)
        .messages(QUESTION, AiMessage.from("Let me see.", List.of(call)), ToolExecutionResultMessage.from(call, "17 degrees"))
        .toolSpecifications(WEATHER).build());
    String said = "[{\"role\": \"user\", \"content\": \"How warm is it?\"}, {\"role\": \"assistant\", \"content\": "
        + "\"Let me see.\", \"tool_calls\": [{\"id\": \"x\", \"type\": \"function\", \"function\": {\"name\": \"weather\", "
        + "\"arguments\": \"" + call.arguments().replace("\"", "\\\"") + "\"}}]}, "
        + "{\"role\": \"tool\", \"tool_call_id\": \"x\", \"content\": \"17 degrees\"}]";
    check(next.tokenUsage().inputTokenCount() == tokensOf(engine, said, true), next);
  }

  private static int tokensOf(ChatEngine engine, String messages, boolean withTools) {
    try (ChatTemplate chat = ChatTemplate.create(TEMPLATE)) {
      Request request = new Request().addMessages(messages).chatTemplate(chat);
      return engine.model().renderChatTokens(withTools ? request.tools(WEATHER_JSON) : request).length;
    }
  }

  /** Returns a schema like those that langchain4j derives from a class: without `additionalProperties`. */
  private static JsonObjectSchema place() {
    return JsonObjectSchema.builder().addProperties(CITY.properties()).required("city").build();
  }

  private static void formats(Fixture with) {
    ResponseFormat format = ResponseFormat.builder().type(ResponseFormatType.JSON)
        .jsonSchema(JsonSchema.builder().name("place").rootElement(place()).build()).build();
    QuireChatModel model = QuireChatModel.of(ChatEngine.of(with.model, with.cache));
    String place = model.chat(greedyRequest(100).responseFormat(format).build()).aiMessage().text();
    check(place.matches("\\{\\s*\"city\"\\s*:\\s*\"(Oslo|Rome)\"\\s*}"), place);
    check(model.supportedCapabilities().toString().contains("JSON_SCHEMA"), "structured output is not told");
    String any = model.chat(greedyRequest(100).responseFormat(ResponseFormat.JSON).build()).aiMessage().text();
    check(any.strip().startsWith("{"), any);
  }

  private static void thinks(Fixture with) throws Exception {
    String opens = TEMPLATE + "<think>\n";
    withCalls(with, opens, engine -> {
      ChatRequest request = greedyRequest(12).build();
      String text = QuireChatModel.of(engine).chat(request).aiMessage().text();
      Told told = stream(engine.thinks(true), request);
      AiMessage message = told.over.get().aiMessage();
      check(message.thinking().strip().equals(text.strip()) && message.text().isEmpty(), message);
      check(told.thoughts.toString().equals(message.thinking()) && told.text.isEmpty(), told.thoughts);
      ChatRequest required = request.toBuilder().toolSpecifications(WEATHER).toolChoice(ToolChoice.REQUIRED).build();
      ChatResponse cut = QuireChatModel.of(engine).chat(required);
      check(!cut.aiMessage().thinking().isEmpty() && cut.finishReason() == FinishReason.LENGTH, cut);
    });
  }

  /** A subscriber that requests one event at a time. */
  private static final class OneByOne implements Flow.Subscriber<ChatModelStreamingEvent> {
    final List<ChatModelStreamingEvent> events = new ArrayList<>();
    final CompletableFuture<Void> over = new CompletableFuture<>();
    int asked;
    Flow.Subscription subscription;

    @Override
    public void onSubscribe(Flow.Subscription begun) {
      subscription = begun;
      ask();
    }

    private void ask() {
      asked++;
      subscription.request(1);
    }

    @Override
    public void onNext(ChatModelStreamingEvent event) {
      events.add(event);
      check(events.size() <= asked, "more events than requested");
      ask();
    }

    @Override
    public void onError(Throwable failure) {
      over.completeExceptionally(failure);
    }

    @Override
    public void onComplete() {
      over.complete(null);
    }
  }

  private static void demand(Fixture with) throws Exception {
    withCalls(with, TEMPLATE, engine -> {
      ChatRequest request = greedyRequest(200).toolSpecifications(WEATHER).toolChoice(ToolChoice.REQUIRED).build();
      Flow.Publisher<ChatModelStreamingEvent> publisher = QuireStreamingChatModel.builder().engine(engine)
          .parallelToolCalls(false).build().chat(request);
      for (int i = 0; i < 2; i++) { // each subscription is a request
        OneByOne one = new OneByOne();
        publisher.subscribe(one);
        one.over.get(120, TimeUnit.SECONDS);
        check(one.events.get(one.events.size() - 1) instanceof CompleteResponse, one.events);
        check(one.events.stream().filter(CompleteToolCall.class::isInstance).count() == 1, one.events);
        check(one.events.stream().filter(CompleteResponse.class::isInstance).count() == 1, one.events);
      }
    });
  }

  private static List<String> threadNames() {
    return Thread.getAllStackTraces().keySet().stream().map(Thread::getName)
        .filter(name -> !name.startsWith("ForkJoinPool.commonPool")).sorted().collect(Collectors.toList());
  }

  private static void threads(Fixture with) throws Exception {
    QuireChatModel model = QuireChatModel.of(ChatEngine.of(with.model, with.cache));
    List<String> expected = threadNames();
    expected.add("quire-dispatcher");
    expected.sort(null);
    List<CompletableFuture<ChatResponse>> answers = new ArrayList<>();
    for (int i = 0; i < 16; i++) {
      answers.add(model.chatAsync(greedyRequest(60).build()));
    }
    List<String> names = threadNames();
    check(expected.containsAll(names), names);
    for (CompletableFuture<ChatResponse> answer : answers) {
      check(answer.get().aiMessage().equals(answers.get(0).get().aiMessage()), answer.get());
    }
  }

  /** Checks that a cancelled job produces at most the token of the running step. */
  private static void checkEndsWithinStep(Fixture with, long newTokens) {
    while (with.cache.stats().jobsRunning() > 0) {
      Thread.onSpinWait();
    }
    check(with.cache.stats().newTokens() <= newTokens + 1, newTokens + " tokens, then " + with.cache.stats());
  }

  private static void cancels(Fixture with) throws Exception {
    ChatEngine engine = ChatEngine.of(with.model, with.cache);
    ChatRequest request = greedyRequest(1500).build();
    CompletableFuture<Long> newTokens = new CompletableFuture<>();
    List<String> after = new ArrayList<>();
    QuireStreamingChatModel.of(engine).chat(request, new StreamingChatResponseHandler() {
      @Override
      public void onPartialResponse(PartialResponse piece, PartialResponseContext context) {
        if (context.streamingHandle().isCancelled()) {
          after.add(piece.text());
        }
        context.streamingHandle().cancel();
        newTokens.complete(with.cache.stats().newTokens());
      }

      @Override
      public void onCompleteResponse(ChatResponse response) {
        after.add("complete");
      }

      @Override
      public void onError(Throwable failure) {
        after.add(failure.toString());
      }
    });
    checkEndsWithinStep(with, newTokens.get());
    check(after.isEmpty(), after);
    CompletableFuture<ChatResponse> future = QuireChatModel.of(engine).chatAsync(request);
    check(future.cancel(true), "it is over");
    checkEndsWithinStep(with, with.cache.stats().newTokens());
    OneByOne one = new OneByOne();
    QuireStreamingChatModel.of(engine).chat(request).subscribe(one);
    one.subscription.cancel();
    checkEndsWithinStep(with, with.cache.stats().newTokens());
    check(!one.over.isDone(), "a cancelled stream has an end");
  }

  private static <T extends Throwable> void refused(Class<T> kind, String says, Runnable call) {
    try {
      call.run();
    } catch (RuntimeException failure) {
      check(kind.isInstance(failure) && failure.getMessage().contains(says), failure);
      return;
    }
    throw new AssertionError("it was not refused: " + says);
  }

  private static void failures(Fixture with) throws Exception {
    ChatEngine engine = ChatEngine.of(with.model, with.cache);
    QuireChatModel model = QuireChatModel.of(engine);
    refused(InvalidRequestException.class, "invalid_argument: temperature",
        () -> model.chat(greedyRequest(4).temperature(-1.0).build()));
    refused(InvalidRequestException.class, "too_large: ",
        () -> model.chat(greedyRequest(4).messages(UserMessage.from("very ".repeat(4000))).build()));
    refused(UnsupportedFeatureException.class, "unsupported: ", () -> model.chat(
        greedyRequest(4).toolSpecifications(WEATHER).toolChoice(ToolChoice.REQUIRED).build()));
    refused(UnsupportedFeatureException.class, "IMAGE", () -> model.chat(greedyRequest(4).messages(UserMessage.from(
        TextContent.from("What is it?"), ImageContent.from(Image.builder().url("http://localhost/").build()))).build()));
    Told wrong = new Told();
    QuireStreamingChatModel.of(engine).chat(greedyRequest(4).temperature(-1.0).build(), wrong);
    ended(wrong, InvalidRequestException.class, "invalid_argument: temperature");
    Told cut = new Told();
    QuireStreamingChatModel.of(engine).chat(greedyRequest(1500).build(), cut);
    with.cache.shutdown();
    ended(cut, LangChain4jException.class, "closed: ");
  }

  private static void ended(Told told, Class<?> kind, String begins) throws Exception {
    try {
      told.over.get(60, TimeUnit.SECONDS);
      throw new AssertionError("it ended well");
    } catch (ExecutionException failure) {
      check(kind.isInstance(failure.getCause()) && failure.getCause().getMessage().startsWith(begins), failure.getCause());
    }
  }

  private static void throwing(Fixture with) throws Exception {
    CompletableFuture<ChatResponse> over = new CompletableFuture<>();
    List<Throwable> told = new ArrayList<>();
    QuireStreamingChatModel.of(ChatEngine.of(with.model, with.cache)).chat(greedyRequest(8).build(),
        new StreamingChatResponseHandler() {
          @Override
          public void onPartialResponse(String piece) {
            throw new IllegalStateException("no");
          }

          @Override
          public void onCompleteResponse(ChatResponse response) {
            over.complete(response);
          }

          @Override
          public void onError(Throwable failure) {
            told.add(failure);
            if (told.size() == 1) {
              throw new IllegalStateException("neither");
            }
          }
        });
    check(over.get(60, TimeUnit.SECONDS).tokenUsage().outputTokenCount() == 8 && !told.isEmpty(), told);
  }

  private static void embeds(Fixture with) {
    QuireEmbeddingModel model = QuireEmbeddingModel.of(ChatEngine.of(with.model, with.cache));
    List<String> texts = List.of("a king", "a dog that barks", "a king");
    var made = model.embedAll(texts.stream().map(TextSegment::from).toList());
    check(made.content().size() == 3 && model.dimension() == made.content().get(0).dimension(), model.dimension());
    int numTokens = 0;
    for (int i = 0; i < texts.size(); i++) {
      try (Job job = with.cache.submit(new Request(texts.get(i)).kind(JobKind.EMBED))) {
        drain(job, dev.quire.FinishReason.COMPLETED);
        check(Arrays.equals(made.content().get(i).vector(), job.embedding()), texts.get(i));
        numTokens += (int) job.info().promptTokens();
      }
    }
    check(made.tokenUsage().inputTokenCount() == numTokens, made.tokenUsage());
    check(model.embed("a king").content().equals(made.content().get(2)), "another vector");
    refused(InvalidRequestException.class, "", () -> model.embed("very ".repeat(4000)));
  }

  private static void scores(Fixture with) {
    QuireScoringModel model = QuireScoringModel.of(ChatEngine.of(with.model, with.cache), text -> text);
    String query = " and they lived happily ever after";
    List<Double> scores = model.scoreAll(List.of(TextSegment.from("The prince married the princess,"),
        TextSegment.from("xq zk 77 ## vw"), TextSegment.from("The prince married the princess,")), query).content();
    check(scores.size() == 3 && scores.get(0) > scores.get(1) && scores.get(0).equals(scores.get(2)), scores);
    float[] plain = with.cache.score(new Request("The prince married the princess," + query), 0);
    int numTokens = with.model.encode(query, false, false).length;
    double sum = 0;
    for (int i = plain.length - numTokens; i < plain.length; i++) {
      sum += plain[i];
    }
    check(Math.abs(sum / numTokens - scores.get(0)) < 1e-3, String.format(Locale.ROOT, "%f %s", sum / numTokens, scores));
  }
}
