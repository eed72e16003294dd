package story;

import static story.Fixture.check;
import static story.Fixture.checkRefused;
import static story.Fixture.drain;
import static story.Fixture.greedy;

import dev.quire.DiagnoseFormat;
import dev.quire.Cache;
import dev.quire.CacheOptions;
import dev.quire.Cancel;
import dev.quire.Device;
import dev.quire.Event;
import dev.quire.EventQueue;
import dev.quire.Job;
import dev.quire.JobInfo;
import dev.quire.ModelInfo;
import dev.quire.ModelOptions;
import dev.quire.QuireException;
import dev.quire.FinishReason;
import dev.quire.ErrorCode;
import dev.quire.EventKind;
import dev.quire.JobState;
import dev.quire.HistogramKind;
import dev.quire.TokenKind;
import dev.quire.JobKind;
import dev.quire.Pooling;
import dev.quire.Histogram;
import dev.quire.QuireRuntime;
import dev.quire.ResponseParser;
import dev.quire.Request;
import dev.quire.Stats;
import dev.quire.Tensor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/** Jobs, queues, statistics and descriptions. */
public final class JobsTest {
  private static final Duration LONG = Duration.ofSeconds(Long.MAX_VALUE);

  private JobsTest() {}

  public static void main(String[] arguments) throws Exception {
    Fixture.run(arguments, "many completions of one prompt", JobsTest::manyCompletions);
    Fixture.run(arguments, "a queue has the events of its jobs", JobsTest::queues);
    Fixture.run(arguments, "many threads share a queue", JobsTest::sharedQueue);
    Fixture.run(arguments, "a failure of a job is an event of its queue", JobsTest::failures);
    Fixture.run(arguments, "a shut queue wakes its waiter and refuses", JobsTest::shutQueues);
    Fixture.run(arguments, "every method of a closed object refuses", JobsTest::closedObjects);
    Fixture.run(arguments, "shutdown ends every job", JobsTest::shutdown);
    Fixture.run(arguments, "a job is paused, resumed and forked", JobsTest::pauses);
    Fixture.run(arguments, "events report progress and probabilities", JobsTest::eventsTell);
    Fixture.run(arguments, "settings take effect and are refused by name", JobsTest::settings);
    Fixture.run(arguments, "scores and embeddings", JobsTest::scores);
    Fixture.run(arguments, "statistics add up", JobsTest::figures);
    Fixture.run(arguments, "models and devices are described", JobsTest::descriptions);
  }

  /** Returns a request for a job that does not end by itself during a test. */
  private static Request endless() {
    return greedy("Once upon a time", 1500).ignoreEos(true);
  }

  private static void manyCompletions(Fixture with) {
    for (Job job : with.cache.submitMany(greedy(with.prompt, 48), 3)) {
      check(drain(job, FinishReason.LENGTH).equals(with.expected), "another text");
      job.close();
    }
    long seed = 7;
    Request drawn = new Request("Once upon a time").maxNewTokens(12).ignoreEos(true).seed(seed);
    for (Job job : with.cache.submitMany(drawn, 3)) {
      try (job; Job alone = with.cache.submit(drawn.seed(seed++))) {
        String text = drain(alone, FinishReason.LENGTH);
        check(drain(job, FinishReason.LENGTH).equals(text), "seed " + (seed - 1));
      }
    }
    for (int count : new int[] {0, -1, 2000}) {
      checkRefused("invalid_argument", "jobs", () -> with.cache.submitMany(greedy("a", 1), count));
    }
  }

  private static void queues(Fixture with) {
    EventQueue queue = with.runtime.createQueue();
    Map<Long, Job> jobs = new HashMap<>();
    Map<Long, String> texts = new HashMap<>();
    for (long name = 1; name <= 3; name++) {
      jobs.put(name, with.cache.submit(greedy(with.prompt, 48).queue(queue).userData(name)));
      texts.put(name, "");
    }
    for (int left = jobs.size(); left > 0;) {
      List<Event> events = queue.drain(8, LONG);
      check(!events.isEmpty() && events.size() <= 8, events);
      for (Event event : events) {
        check(event.jobId() == jobs.get(event.userData()).id(), event);
        texts.merge(event.userData(), event.text(), String::concat);
        left -= event.isLast() ? 1 : 0;
      }
    }
    jobs.forEach((name, job) -> {
      check(texts.get(name).equals(with.expected), texts.get(name));
      check(job.next().isEmpty(), "the queue took the last event");
      job.close();
    });
    check(queue.drain(Integer.MAX_VALUE, Duration.ZERO).isEmpty() && queue.poll(Duration.ZERO).isEmpty(), "nothing is left");
    checkRefused("invalid_argument", "max_events", () -> queue.drain(0, Duration.ZERO));
    queue.close();
  }

  private static void sharedQueue(Fixture with) throws Exception {
    EventQueue queue = with.runtime.createQueue();
    AtomicInteger tokens = new AtomicInteger();
    CountDownLatch last = new CountDownLatch(6);
    List<Job> jobs = with.cache.submitMany(greedy("Once upon a time", 40).ignoreEos(true).queue(queue), 6);
    Thread[] readers = new Thread[4];
    for (int i = 0; i < readers.length; i++) {
      readers[i] = new Thread(() -> {
        try {
          while (true) {
            for (Event event : queue.drain(3, LONG)) {
              tokens.addAndGet(event.tokens().length);
              if (event.isLast()) {
                last.countDown();
              }
            }
          }
        } catch (QuireException | IllegalStateException closed) {
          // closed during or before the read of this thread
        }
      });
      readers[i].setDaemon(true);
      readers[i].start();
    }
    check(last.await(60, TimeUnit.SECONDS), last);
    queue.close();
    for (Thread reader : readers) {
      reader.join(30_000);
      check(!reader.isAlive(), "a reader was not woken");
    }
    check(tokens.get() == 6 * 40, tokens);
    jobs.forEach(Job::close);
  }

  private static void failures(Fixture with) {
    try (EventQueue queue = with.runtime.createQueue()) {
      Request late = endless().queue(queue).deadline(Duration.ofNanos(1));
      Job job = with.cache.submit(late); // the cache cannot detect yet that a nanosecond is too short
      Event event;
      do {
        event = queue.poll(LONG).orElseThrow();
      } while (!event.isLast());
      check(event.error().codeName().equals("deadline") && !event.error().getMessage().isEmpty(), event);
      check(job.info().errorCode() == ErrorCode.DEADLINE, job.info());
      job.close();
    }
  }

  private static void shutQueues(Fixture with) throws Exception {
    EventQueue queue = with.runtime.createQueue();
    CompletableFuture<Optional<Event>> reader = CompletableFuture.supplyAsync(() -> queue.poll(LONG));
    queue.shutdown();
    Throwable woken = reader.handle((event, error) -> error.getCause()).get(30, TimeUnit.SECONDS);
    check(((QuireException) woken).codeName().equals("closed"), woken);
    queue.close();
    queue.close();
    for (Runnable call : new Runnable[] {
        () -> queue.poll(Duration.ZERO), () -> with.cache.submit(greedy("a", 1).queue(queue))}) {
      try {
        call.run();
        throw new AssertionError("a closed queue is taken");
      } catch (IllegalStateException closed) {
        // expected
      }
    }
  }

  private static void closedObjects(Fixture with) throws Exception {
    EventQueue queue = with.runtime.createQueue();
    Map<Class<?>, Object> arguments = Map.ofEntries(Map.entry(String.class, "a"), Map.entry(int.class, 1),
        Map.entry(long.class, 1L), Map.entry(boolean.class, true), Map.entry(int[].class, new int[] {1}),
        Map.entry(Duration.class, Duration.ZERO), Map.entry(Request.class, new Request("a")),
        Map.entry(double.class, 1.0), Map.entry(CacheOptions.class, new CacheOptions()),
        Map.entry(ModelOptions.class, new ModelOptions()), Map.entry(Cache.class, with.cache),
        Map.entry(EventQueue.class, queue));
    AutoCloseable[] objects = {with.runtime.createAlias("chat"), with.runtime, with.model, with.cache,
        with.runtime.createQueue(), with.cache.submit(endless()), new Cancel(), ResponseParser.create("plain")};
    for (AutoCloseable object : objects) {
      object.close();
      for (Method method : object.getClass().getMethods()) {
        if (method.getName().equals("close") || !isCallable(method)) {
          continue;
        }
        try {
          Class<?>[] types = method.getParameterTypes();
          method.invoke(object, Arrays.stream(types).map(type -> argument(type, arguments)).toArray());
        } catch (InvocationTargetException refused) {
          check(refused.getCause() instanceof IllegalStateException, method + ": " + refused.getCause());
          continue;
        }
        throw new AssertionError(method + " does not refuse");
      }
    }
    queue.close();
  }

  private static Object argument(Class<?> type, Map<Class<?>, Object> arguments) {
    return type.isEnum() ? type.getEnumConstants()[0] : arguments.get(type);
  }

  private static boolean isCallable(Method method) {
    return !Modifier.isStatic(method.getModifiers()) && method.getDeclaringClass().getPackageName().equals("dev.quire");
  }

  private static void shutdown(Fixture with) {
    Job job = with.cache.submit(endless());
    with.cache.shutdown();
    with.cache.shutdown();
    check(job.waitFor(LONG), "the job is not over");
    checkRefused("closed", "", () -> {
      while (job.next().isPresent()) {}
    });
    checkRefused("closed", "", () -> with.cache.submit(greedy("a", 1)));
    job.close();
  }

  private static void pauses(Fixture with) {
    Job job = with.cache.submit(endless());
    job.setPriority(3);
    job.pause();
    check(!job.waitFor(Duration.ofMillis(1)), "a paused job ended");
    check(!job.explain().isEmpty() && !job.explain().contains("\n"), job.explain());
    Job fork = job.fork(new Request().maxNewTokens(5));
    job.resume();
    check(fork.waitFor(LONG), "the fork is not over");
    check(fork.info().finishReason() == FinishReason.LENGTH, fork.info());
    job.rewind(1);
    checkRefused("invalid_argument", "priority", () -> job.setPriority(5000));
    checkRefused("invalid_argument", "num_new_tokens", () -> job.rewind(-1));
    fork.close();
    job.close();
  }

  private static void eventsTell(Fixture with) {
    try (Cache cache = with.model.createCache(new CacheOptions().maxTokens(512).maxChunkTokens(4));
        Job job = cache.submit(greedy(with.prompt, 6).progressEvents(true).topLogProbs(2))) {
      long done = 0;
      int tokens = 0;
      for (Optional<Event> next = job.next(); next.isPresent(); next = job.next()) {
        Event event = next.get();
        if (event.kind() == EventKind.PROGRESS) {
          check(event.progressDone() > done && event.progressDone() <= event.progressTotal(), event);
          done = event.progressDone();
        }
        for (int i = 0; i < event.tokens().length; i++, tokens++) { // greedy: the chosen token is the likeliest
          check(event.topTokens()[2 * i] == event.tokens()[i], event);
          check(event.topLogProbs()[2 * i] == event.logProbs()[i] && event.logProbs()[i] <= 0, event);
        }
      }
      JobInfo info = job.info();
      check(tokens == 6 && info.newTokens() == 6 && done > 0 && done <= info.promptTokens(), info);
      check(info.state() == JobState.FINISHED && info.stopToken() == -1, info);
      check(info.timeGenerate().toNanos() > 0, info);
    }
  }

  private static int firstToken(Cache cache, Request request) {
    try (Job job = cache.submit(request)) {
      while (true) {
        int[] tokens = job.next().orElseThrow().tokens();
        if (tokens.length > 0) {
          return tokens[0];
        }
      }
    }
  }

  private static void settings(Fixture with) {
    int likeliest = firstToken(with.cache, greedy("Once upon a time", 1));
    check(firstToken(with.cache, greedy("Once upon a time", 1).bannedTokens(likeliest)) != likeliest, "banned");
    check(firstToken(with.cache, greedy("Once upon a time", 1).logitBias(42, 1000)) == 42, "biased");
    Duration negative = Duration.ofNanos(-1);
    Map<String, Request> refused = Map.ofEntries(
        Map.entry("min_new_tokens", greedy("a", 1).minNewTokens(-1)), Map.entry("min_p", greedy("a", 1).minP(2)),
        Map.entry("penalty", greedy("a", 1).repetitionPenalty(0)),
        Map.entry("frequency_penalty", greedy("a", 1).frequencyPenalty(1000)),
        Map.entry("presence_penalty", greedy("a", 1).presencePenalty(1000)),
        Map.entry("range_tokens", greedy("a", 1).penaltyRange(-2)),
        Map.entry("fade_tokens", greedy("a", 1).penaltyDecay(-1)),
        Map.entry("top_log_probs", greedy("a", 1).topLogProbs(65)),
        Map.entry("max_unread_events", greedy("a", 1).maxUnreadEvents(1)),
        Map.entry("namespace", greedy("a", 1).namespace("n".repeat(257))),
        Map.entry("priority", greedy("a", 1).priority(5000)),
        Map.entry("deadline_ns", greedy("a", 1).queueDeadline(negative)),
        Map.entry("deadline_ns ", greedy("a", 1).firstTokenDeadline(negative)),
        Map.entry("deadline_ns  ", greedy("a", 1).deadline(negative)));
    refused.forEach(
        (name, request) -> checkRefused("invalid_argument", name.trim(), () -> with.cache.submit(request)));
  }

  private static void scores(Fixture with) {
    int[] tokens = with.model.encode(with.prompt, true, false);
    int vocab = with.cache.vocabSize();
    try (Cancel cancel = new Cancel();
        Job job = with.cache.submit(new Request(tokens).kind(JobKind.SCORE).rawLogits(true));
        Job embed = with.cache.submit(
            new Request(tokens).kind(JobKind.EMBED).pooling(Pooling.LAST))) {
      check(job.waitFor(LONG) && embed.waitFor(LONG), "they are not over");
      float[] scores = job.scores();
      check(scores.length == tokens.length && Float.isNaN(scores[0]) && scores[1] <= 0, scores.length);
      check(Arrays.equals(scores, with.cache.score(new Request(tokens), 0)), "other scores");
      float[] logits = with.cache.logits(new Request(tokens));
      check(logits.length == tokens.length * vocab && logits[vocab] == job.rawLogits()[vocab], logits.length);
      checkRefused("invalid_argument", "", () -> with.cache.score(new Request(new int[] {-1}), 0, LONG, cancel));
      check(with.cache.score(new Request(tokens), 4, LONG, cancel).length == tokens.length, "scores by windows");
      cancel.trigger();
      checkRefused("cancelled", "", () -> with.cache.score(new Request(tokens), 0, LONG, cancel));
      checkRefused("cancelled", "", () -> with.cache.logits(new Request(tokens), LONG, cancel));
      double length = 0;
      for (float value : embed.embedding()) {
        length += (double) value * value;
      }
      check(embed.embedding().length == with.model.info().hiddenSize(), "width");
      check(Math.abs(length - 1) < 1e-5, length); // sums of a few hundred squares in f32
    }
  }

  private static void figures(Fixture with) {
    try (Job job = with.cache.submit(greedy("Once upon a time", 4).namespace("tenant").ignoreEos(true))) {
      drain(job, FinishReason.LENGTH);
    }
    Stats stats = with.cache.stats();
    check(stats.pagesFree() + stats.pagesCached() + stats.pagesReferenced() == stats.pagesTotal(), stats);
    check(stats.jobsQueued() + stats.jobsRunning() + stats.jobsFinished() == stats.jobsSubmitted(), stats);
    Stats tenant = stats.namespaces().get("tenant");
    check(tenant.newTokens() == 4 && tenant.namespaces().isEmpty() && stats.steps() >= 4, stats);
    Histogram first = stats.histograms().get(HistogramKind.TIME_TO_FIRST_TOKEN);
    check(first.count() == 1 && first.sum() > 0 && first.p50() > 0 && first.p99() >= first.p50(), first);
    check(with.cache.metrics("main").contains("cache=\"main\""), "metrics");
  }

  private static void descriptions(Fixture with) {
    ModelInfo info = with.model.info();
    check(!info.architecture().isEmpty() && info.vocabSize() > 0 && info.bitsPerWeight() > 3, info);
    List<Tensor> tensors = with.model.tensors();
    long quantized = tensors.stream().filter(
        tensor -> tensor.format().equals("exl2") && tensor.shape().length == 2 && tensor.layer() >= 0).count();
    check(quantized == 7L * info.numLayers(), quantized + " quantized matrices in layers");
    int eos = with.model.specialToken(TokenKind.EOS).orElseThrow();
    check(with.model.isSpecial(eos) && with.model.eosTokens()[0] == eos && eos < with.model.tokenizerSize(), eos);
    String spelled = new String(with.model.tokenBytes(eos), java.nio.charset.StandardCharsets.UTF_8);
    check(with.model.findToken(spelled).getAsInt() == eos, spelled);
    check(with.model.findToken("no such token").isEmpty(), "found");
    checkRefused("invalid_argument", "token", () -> with.model.isSpecial(-1));
    Device cpu = with.runtime.devices().get(0);
    check(cpu.name().equals("cpu") && cpu.refusal().isEmpty() && cpu.memoryBytes() > 0, cpu);
    check(QuireRuntime.diagnose(DiagnoseFormat.TEXT).contains(QuireRuntime.libraryVersion()), "diagnose");
    check(QuireRuntime.diagnose(DiagnoseFormat.JSON).startsWith("{\"version\":"), "diagnose as JSON");
  }
}
