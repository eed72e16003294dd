package story;

import static story.Fixture.check;
import static story.Fixture.checkRefused;
import static story.Fixture.drain;
import static story.Fixture.greedy;

import dev.quire.Cache;
import dev.quire.CacheOptions;
import dev.quire.Drafter;
import dev.quire.KvFormat;
import dev.quire.Quota;
import dev.quire.Cancel;
import dev.quire.Event;
import dev.quire.EventKind;
import dev.quire.EventQueue;
import dev.quire.Job;
import dev.quire.Model;
import dev.quire.ModelOptions;
import dev.quire.MemoryPlan;
import dev.quire.DevicePlan;
import dev.quire.PageChange;
import dev.quire.PageMedium;
import dev.quire.Plan;
import dev.quire.FinishReason;
import dev.quire.JobKind;
import dev.quire.ModelScope;
import dev.quire.ModelState;
import dev.quire.QuireRuntime;
import dev.quire.Request;
import dev.quire.RuntimeOptions;
import dev.quire.ShardStats;
import dev.quire.Stats;
import java.time.Duration;
import java.util.Arrays;
import java.util.Map;

/** Options and plans: each value reaches its field, and an invalid one is refused by its name. */
public final class OptionsTest {
  private static final Duration FOREVER = Duration.ofNanos(-1);

  private OptionsTest() {}

  public static void main(String[] arguments) throws Exception {
    Fixture.run(arguments, "cache options are refused by name", OptionsTest::cacheOptionsAreRefused);
    Fixture.run(arguments, "cache options reach the cache", OptionsTest::cacheOptionsArrive);
    Fixture.run(arguments, "quotas hold for namespaces without their own", OptionsTest::quotasHold);
    Fixture.run(arguments, "pins keep pages within their limit", OptionsTest::pinsKeepPages);
    Fixture.run(arguments, "a queue gets page events", OptionsTest::followsPages);
    Fixture.run(arguments, "a plan reports bytes by kind and device", OptionsTest::plans);
    Fixture.run(arguments, "a model split by bytes generates the same text", OptionsTest::splits);
    Fixture.run(arguments, "model options are refused by name", OptionsTest::modelOptionsAreRefused);
    Fixture.run(arguments, "shards are named", OptionsTest::shards);
    Fixture.run(arguments, "draft networks are named", OptionsTest::draftNetworks);
    Fixture.run(arguments, "host experts are refused by name", OptionsTest::hostExperts);
    Fixture.run(arguments, "weights are evicted and reloaded", OptionsTest::residency);
    Fixture.run(arguments, "a scope loads only its parts", OptionsTest::scopes);
    Fixture.run(arguments, "a cancel ends a load", OptionsTest::cancelsALoad);
    Fixture.run(arguments, "a load reports its progress", OptionsTest::tellsProgress);
  }

  private static void shards(Fixture with) {
    try (Model model = with.runtime.loadModel(with.path, new ModelOptions().numShards(2));
        Cache cache = model.createCache(options().maxTokens(512))) {
      Stats stats = cache.stats();
      check(model.info().numShards() == 2 && stats.shards().size() == 2, stats);
      check(stats.shards().stream().allMatch(shard -> shard.deviceBytes() > 0), stats);
      check(stats.shards().stream().mapToLong(ShardStats::deviceBytes).sum() == stats.deviceBytes(), stats);
      check(model.shardWeightBytes(0) + model.shardWeightBytes(1) == model.info().weightBytes(), "weights");
    }
  }

  private static void hostExperts(Fixture with) {
    checkRefused("unsupported", "has no experts",
        () -> with.runtime.loadModel(with.path, new ModelOptions().hostExperts("all")));
    checkRefused("invalid_argument", "host_experts",
        () -> with.runtime.loadModel(with.path, new ModelOptions().hostExperts("most")));
  }

  private static void draftNetworks(Fixture with) {
    try (Model model = with.runtime.loadModel(with.path, new ModelOptions().drafter("none"))) {
      check(model.info().drafter().isEmpty() && model.info().drafterBytes() == 0, model.info());
      checkRefused("invalid_argument", "drafter", () -> model.createCache(options().drafter(Drafter.NETWORK)));
    }
    check(with.runtime.plan(with.path, new ModelOptions(), options()).drafterBytes() == 0, "drafterBytes");
    checkRefused("unsupported", "multi-token prediction",
        () -> with.runtime.loadModel(with.path, new ModelOptions().drafter("mtp")));
  }

  private static void residency(Fixture with) {
    try (Model model = with.runtime.loadModel(with.path); Cache cache = model.createCache(options().maxTokens(512))) {
      model.evict(ModelState.STANDING_BY);
      check(model.state() == ModelState.STANDING_BY, model.state());
      model.wake();
      check(model.state() == ModelState.RESIDENT, model.state());
      try (Job job = cache.submit(greedy("a", 400)); Cancel never = new Cancel()) {
        job.next(); // the job computes now
        check(!model.evict(ModelState.ON_DISK, Duration.ofMillis(1), never), "a model with jobs left");
        job.cancel();
      }
      checkRefused("invalid_argument", "state", () -> model.evict(ModelState.RESIDENT));
    }
  }

  private static CacheOptions options() {
    return new CacheOptions();
  }

  private static void cacheOptionsAreRefused(Fixture with) {
    Duration negative = Duration.ofNanos(-1);
    Map<String, CacheOptions> refused = Map.ofEntries(
        Map.entry("max_tokens", options().maxTokens(-1)), Map.entry("page_tokens", options().pageTokens(5000)),
        Map.entry("min_tokens", options().minTokens(-1)), Map.entry("page_idle_ns", options().pageIdle(negative)),
        Map.entry("max_batch_size", options().maxBatchSize(5000)),
        Map.entry("window_sequences", options().windowSequences(-1)),
        Map.entry("max_chunk_tokens", options().maxChunkTokens(70000)),
        Map.entry("max_seq_len", options().maxSeqLen(-1)), Map.entry("max_queue", options().maxQueue(0)),
        Map.entry("limit", options().quota(Quota.PAGES, -1)),
        Map.entry("limit ", options().namespaceQuota("a", Quota.QUEUED_JOBS, -1)),
        Map.entry("weight", options().namespaceWeight("a", 0)),
        Map.entry("max_pinned_pages", options().maxPinnedPages(-1)),
        Map.entry("prefix_bytes", options().prefixBytes(-1)),
        Map.entry("prefix_directory_bytes", options().prefixDirectoryBytes(-1)),
        Map.entry("max_overtakes", options().maxOvertakes(-1)), Map.entry("ageing_ns", options().ageing(negative)),
        Map.entry("step_timeout_ns", options().stepTimeout(negative)),
        Map.entry("close_timeout_ns", options().closeTimeout(negative)));
    refused.forEach((name, options) -> {
      checkRefused("invalid_argument", name.trim(), () -> with.model.createCache(options));
      checkRefused("invalid_argument", name.trim(), () -> with.model.cacheBytes(options));
    });
  }

  private static void cacheOptionsArrive(Fixture with) {
    CacheOptions options = options().maxTokens(640).pageTokens(16).maxBatchSize(3).maxChunkTokens(32).maxSeqLen(600)
        .maxQueue(5).kvFormat(KvFormat.Q4).maxPinnedPages(7).maxOvertakes(0).ageing(Duration.ZERO)
        .stepTimeout(Duration.ofDays(1)).closeTimeout(Duration.ZERO);
    long bytes = with.model.cacheBytes(options);
    try (Cache cache = with.model.createCache(options)) {
      Stats stats = cache.stats();
      check(stats.pageTokens() == 16 && stats.pagesTotal() == 40 && stats.deviceBytes() == bytes, stats);
      check(cache.maxSeqLen() == 600, "max_seq_len");
      checkRefused("invalid_argument", "num_jobs", () -> cache.submitMany(greedy("a", 1), 6));
    }
    check(with.model.cacheBytes(options.kvFormat(KvFormat.F16)) > bytes, "f16 pages take no more than q4 pages");
  }

  private static void quotasHold(Fixture with) {
    CacheOptions options = options().maxTokens(1024).pageTokens(16).quota(Quota.PAGES, 2)
        .namespaceQuota("large", Quota.PAGES, 0).namespaceWeight("large", 2);
    try (Cache cache = with.model.createCache(options)) {
      checkRefused("too_large", "pages", () -> cache.submit(greedy("a", 64).namespace("small")));
      try (Job job = cache.submit(greedy("a", 64).namespace("large").ignoreEos(true))) {
        drain(job, FinishReason.LENGTH);
      }
      Stats large = cache.stats().namespaces().get("large");
      check(large.jobsFinished() == 1 && large.newTokens() == 64, large);
    }
  }

  private static void followsPages(Fixture with) {
    int[] tokens = Arrays.copyOf(with.model.encode("one two three four ".repeat(40), true, false), 40);
    Cache cache = with.model.createCache(options().maxTokens(1024).pageTokens(16));
    try (EventQueue queue = with.runtime.createQueue()) {
      try (Job job = cache.submit(new Request(tokens).kind(JobKind.WARM).namespace("books"))) {
        drain(job, FinishReason.COMPLETED);
      }
      for (int round = 0; round < 2; round++) { // the second round starts again
        cache.followPages(queue, 7);
        long parent = 0;
        for (int number = 0; number < 3; number++) {
          Event event = queue.poll(FOREVER).get();
          check(event.kind() == EventKind.PAGE && event.userData() == 7 && event.pageNumber() == number, event);
          if (number == 0) {
            check(event.pageChange() == PageChange.CLEARED && event.pageMedium() == PageMedium.NONE, event);
            continue;
          }
          check(event.pageChange() == PageChange.STORED && event.pageMedium() == PageMedium.DEVICE, event);
          check(event.pageNamespace().equals("books") && event.pageHash() != 0 && event.pageParent() == parent, event);
          check(Arrays.equals(event.tokens(), Arrays.copyOfRange(tokens, 16 * number - 16, 16 * number)), event);
          parent = event.pageHash();
        }
      }
      cache.close();
      Event last = queue.poll(FOREVER).get();
      check(last.pageChange() == PageChange.CLEARED && last.pageNumber() == 3, last);
      check(queue.poll(Duration.ZERO).isEmpty(), "more after the end of the cache");
    }
  }

  private static void pinsKeepPages(Fixture with) {
    try (Cache cache = with.model.createCache(options().maxTokens(1024).pageTokens(16).maxPinnedPages(2))) {
      int[] tokens = with.model.encode("one two three four ".repeat(40), true, false);
      Request warm = new Request(tokens).kind(JobKind.WARM);
      checkRefused("not_found", "", () -> cache.pin(warm, Duration.ZERO));
      try (Job job = cache.submit(warm)) {
        drain(job, FinishReason.COMPLETED);
      }
      checkRefused("quota", "", () -> cache.pin(warm, Duration.ZERO));
      Request first = new Request(Arrays.copyOf(tokens, 17));
      check(cache.query(first) >= 16, "the first page is not found");
      long pin = cache.pin(first, Duration.ZERO);
      check(cache.stats().pagesPinned() == 1, cache.stats());
      cache.unpin(pin);
      cache.unpin(pin);
      cache.query(first); // queued after a step
      check(cache.stats().pagesPinned() == 0, cache.stats());
    }
  }

  private static CacheOptions small() {
    return options().maxTokens(512).maxChunkTokens(32).maxBatchSize(4);
  }

  private static void plans(Fixture with) {
    Plan plan = with.runtime.plan(with.path, new ModelOptions(), small());
    MemoryPlan memory = plan;
    long sum = memory.embeddingBytes() + memory.layerBytes() + memory.headBytes() + memory.kvBytes() + memory.workspaceBytes();
    check(memory.totalBytes() == sum && memory.kvBytes() > 0 && plan.layers().size() == 8, plan);
    check(plan.devices().size() == 1 && plan.devices().get(0).totalBytes() == memory.totalBytes()
        && plan.devices().get(0).kvBytes() == memory.kvBytes(), plan);
    check(plan.devices().get(0).name().equals("cpu") && plan.devices().get(0).usableBytes() > 0, plan);
    ModelOptions split = new ModelOptions().device("cpu,cpu").split("3,5");
    Plan shared = with.runtime.plan(with.path, split, small());
    check(shared.devices().get(0).numLayers() == 3 && shared.devices().get(1).numLayers() == 5, shared);
    check(shared.layers().get(2).device() == 0 && shared.layers().get(3).device() == 1, shared);
    check(with.runtime.plan(with.path, split, small().maxTokens(1024)).kvBytes() > memory.kvBytes(), "more tokens");
    checkRefused("not_found", "/no/such/model",
        () -> with.runtime.plan("/no/such/model", new ModelOptions(), small()));
    checkRefused("out_of_memory", "1048576",
        () -> with.runtime.plan(with.path, new ModelOptions().device("cpu,cpu").split("1M,2M"), small()));
    checkRefused("invalid_argument", "page_tokens",
        () -> with.runtime.plan(with.path, new ModelOptions(), small().pageTokens(-1)));
  }

  private static void splits(Fixture with) {
    long most = with.runtime.plan(with.path, new ModelOptions(), small()).totalBytes() * 3 / 4 / 1024;
    ModelOptions options =
        new ModelOptions().device("cpu,cpu").split("1G," + most + "K").reserve("64M").plannedCache(small());
    DevicePlan second = with.runtime.plan(with.path, options, small()).devices().get(1);
    check(second.numLayers() > 0 && second.numLayers() < 8 && second.totalBytes() <= most * 1024, second);
    try (Model model = with.runtime.loadModel(with.path, options); Cache cache = model.createCache(small());
        Job job = cache.submit(greedy(with.prompt, 48))) {
      String text = drain(job, FinishReason.LENGTH);
      check(text.equals(with.expected), text);
    }
  }

  private static void modelOptionsAreRefused(Fixture with) {
    ModelOptions two = new ModelOptions().device("cpu,cpu");
    checkRefused("invalid_argument", "split: 9 layers", () -> with.runtime.loadModel(with.path, two.split("3,6")));
    checkRefused("invalid_argument", "reserve",
        () -> with.runtime.loadModel(with.path, two.split("4,4").reserve("1,2,3")));
    checkRefused("out_of_memory", "1048576", () -> with.runtime.loadModel(with.path, new ModelOptions().split("1M")));
    checkRefused("invalid_argument", "max_queue",
        () -> with.runtime.loadModel(with.path, new ModelOptions().plannedCache(options().maxQueue(-1))));
    RuntimeOptions budgets = new RuntimeOptions().device("cpu").memoryBudget("cpu", 1 << 20).memoryBudget("pinned", 1 << 20);
    try (QuireRuntime narrow = QuireRuntime.create(budgets)) {
      checkRefused("out_of_memory", "", () -> narrow.loadModel(with.path));
      narrow.setMemoryBudget("pinned", 0);
      checkRefused("not_found", "pinned:0", () -> narrow.setMemoryBudget("pinned:0", 1));
    }
  }

  private static void scopes(Fixture with) {
    try (Model described = with.runtime.loadModel(with.path, new ModelOptions().scope(ModelScope.METADATA));
        Model tokenizer = with.runtime.loadModel(with.path, new ModelOptions().scope(ModelScope.TOKENIZER))) {
      check(described.info().numLayers() == 8, described.info());
      checkRefused("unsupported", "", described::createCache);
      check(tokenizer.encode("a", true, false).length > 0, "no token");
      checkRefused("unsupported", "", tokenizer::info);
    }
  }

  private static void cancelsALoad(Fixture with) {
    Cancel cancel = new Cancel();
    ModelOptions options = new ModelOptions().cancel(cancel);
    with.runtime.loadModel(with.path, options).close();
    check(!cancel.isTriggered(), "it was not triggered");
    cancel.trigger();
    cancel.trigger();
    check(cancel.isTriggered(), "it is not triggered");
    checkRefused("cancelled", "", () -> with.runtime.loadModel(with.path, options));
    cancel.close();
    cancel.close();
    try {
      with.runtime.loadModel(with.path, options);
    } catch (IllegalStateException closed) {
      return;
    }
    throw new AssertionError("a closed cancel is taken");
  }

  private static void tellsProgress(Fixture with) {
    long[] told = {0, -1};
    ModelOptions options = new ModelOptions().progress((done, total) -> {
      check(done >= told[0] && done <= total, done);
      told[0] = done;
      told[1] = total;
      checkRefused("reentrant", "", () -> with.model.createCache());
    });
    with.runtime.loadModel(with.path, options).close();
    check(told[0] == told[1], told[0]);

    try (Cancel cancel = new Cancel()) {
      cancel.trigger();
      checkRefused("cancelled", "", () -> with.runtime.loadModel(with.path, options.cancel(cancel)));
    }
    int[] times = {0};
    for (Throwable mine : new Throwable[] {new IllegalArgumentException("mine"), new AssertionError("mine")}) {
      try {
        with.runtime.loadModel(with.path, new ModelOptions().progress((done, total) -> {
          times[0]++;
          throwAny(mine);
        }));
      } catch (IllegalArgumentException | AssertionError passed) {
        check(passed == mine, passed);
        continue;
      }
      throw new IllegalStateException("what progress threw was lost");
    }
    check(times[0] == 2, times[0]);
  }

  private static void throwAny(Throwable thrown) {
    if (thrown instanceof Error error) {
      throw error;
    }
    throw (RuntimeException) thrown;
  }
}
