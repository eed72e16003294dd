package story;

import static story.Fixture.check;
import static story.Fixture.drain;
import static story.Fixture.greedy;

import dev.quire.Cache;
import dev.quire.CacheOptions;
import dev.quire.ErrorCode;
import dev.quire.Event;
import dev.quire.EventKind;
import dev.quire.FinishReason;
import dev.quire.Job;
import dev.quire.JobState;
import dev.quire.QuireException;
import dev.quire.Request;
import dev.quire.Stats;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.Flow;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;

/** Each way to end a job or a wait works at every stage and leaves nothing behind. */
public final class CancelsTest {
  private static final Duration FOREVER = Duration.ofSeconds(-1);

  private enum Stage { QUEUED, PROMPT, GENERATING, LAST_EVENT, AFTER_THE_END }

  private CancelsTest() {}

  public static void main(String[] arguments) throws Exception {
    Fixture.run(arguments, "a cancel ends the job within a step", with -> atEachStage(with, Job::cancel));
    Fixture.run(arguments, "a cancelled future ends the job", with -> atEachStage(with, job -> job.future().cancel(true)));
    Fixture.run(arguments, "a cancelled subscription ends the job", with -> atEachStage(with, CancelsTest::cancelSubscription));
    Fixture.run(arguments, "an interrupt ends the wait", CancelsTest::interrupts);
    Fixture.run(arguments, "random cancels leave nothing", CancelsTest::random);
  }

  private static Cache cacheOfOne(Fixture with) {
    return with.model.createCache(new CacheOptions().maxTokens(2048).maxBatchSize(1).maxChunkTokens(4));
  }

  /** Returns a job at the stage. At QUEUED, another job runs first in a cache for one job. */
  private static Job jobAt(Stage stage, Cache cache, List<Job> before) {
    if (stage == Stage.QUEUED) {
      Job holder = cache.submit(greedy("Once", 1900).ignoreEos(true));
      holder.next();
      before.add(holder);
    }
    if (stage == Stage.PROMPT) {
      int[] prompt = new int[1900];
      Arrays.fill(prompt, 1, prompt.length, 7);
      Job job = cache.submit(new Request(prompt).maxNewTokens(100).ignoreEos(true).progressEvents(true));
      check(job.next().orElseThrow().kind() == EventKind.PROGRESS, "no progress");
      return job;
    }
    boolean ends = stage.compareTo(Stage.LAST_EVENT) >= 0;
    Job job = cache.submit(greedy("Once", ends ? 3 : 1900).ignoreEos(true));
    switch (stage) {
      case QUEUED -> check(job.info().state() == JobState.QUEUED, job.info());
      case GENERATING -> job.next();
      case LAST_EVENT -> job.waitFor(FOREVER);
      default -> drain(job, FinishReason.LENGTH);
    }
    return job;
  }

  private static void atEachStage(Fixture with, Consumer<Job> cancel) throws Exception {
    for (Stage stage : Stage.values()) {
      List<Job> before = new ArrayList<>();
      try (Cache cache = cacheOfOne(with)) {
        Job job = jobAt(stage, cache, before);
        cancel.accept(job);
        long tokens = job.info().newTokens();
        job.waitFor(FOREVER);
        boolean ended = stage.compareTo(Stage.LAST_EVENT) >= 0;
        check(job.info().finishReason() == (ended ? FinishReason.LENGTH : FinishReason.CANCELLED), stage + ": " + job.info());
        check(job.info().newTokens() <= tokens + 1, stage + ": " + tokens + " tokens, then " + job.info());
        if (stage == Stage.LAST_EVENT) {
          check(job.stream().mapToInt(event -> event.tokens().length).sum() == 3, "an event is lost");
        }
        before.forEach(Job::close);
        job.close();
        awaitIdle(cache);
      }
    }
  }

  private static void cancelSubscription(Job job) {
    job.publisher().subscribe(new Flow.Subscriber<>() {
      @Override
      public void onSubscribe(Flow.Subscription subscription) {
        subscription.cancel();
      }

      @Override
      public void onNext(Event event) {}

      @Override
      public void onError(Throwable failure) {}

      @Override
      public void onComplete() {}
    });
  }

  private static void awaitIdle(Cache cache) throws InterruptedException {
    for (Stats stats = cache.stats(); stats.jobsRunning() + stats.jobsQueued() + stats.pagesReferenced() > 0;
        stats = cache.stats()) {
      Thread.sleep(1); // until the step ends
    }
  }

  private static void interrupts(Fixture with) throws Exception {
    for (Stage stage : Stage.values()) {
      List<Job> before = new ArrayList<>();
      try (Cache cache = cacheOfOne(with)) {
        Job job = jobAt(stage, cache, before);
        AtomicReference<QuireException> thrown = new AtomicReference<>();
        Thread waiter = new Thread(() -> {
          try {
            while (true) { // a wait returns at once in the last stages
              job.waitFor(FOREVER);
            }
          } catch (QuireException ended) {
            check(Thread.currentThread().isInterrupted(), "the interrupt flag was cleared");
            thrown.set(ended);
          }
        });
        waiter.start();
        waiter.interrupt();
        waiter.join();
        check(thrown.get() != null && thrown.get().code() == ErrorCode.CANCELLED, stage + ": " + thrown);
        boolean ended = stage.compareTo(Stage.LAST_EVENT) >= 0;
        check((job.info().finishReason() == FinishReason.NONE) != ended, stage + ": " + job.info());
        before.forEach(Job::close);
        job.close();
        awaitIdle(cache);
      }
    }
  }

  /** Returns an action that ends a job or its reader, chosen by `kind`. */
  private static Runnable ending(int kind, Job job, Thread reader) {
    return switch (kind) {
      case 0 -> () -> job.future().cancel(true);
      case 1 -> reader::interrupt;
      case 2 -> job::close;
      case 3 -> () -> cancelSubscription(job);
      default -> job::cancel;
    };
  }

  private static void readToTheEnd(Cache cache, ScheduledExecutorService clock, int kind, int micros) {
    Job job = cache.submit(greedy("Once upon a time", 20));
    Future<?> cancelled = clock.schedule(ending(kind, job, Thread.currentThread()), micros, TimeUnit.MICROSECONDS);
    try {
      job.forEach(event -> {});
    } catch (QuireException | IllegalStateException ended) {
      // interrupted or closed
    }
    while (true) {
      try {
        cancelled.get();
        break;
      } catch (InterruptedException interrupted) {
        // the reader was interrupted, as intended
      } catch (ExecutionException closed) {
        check(closed.getCause() instanceof IllegalStateException, closed); // the reader closed the job before the action ran
        break;
      }
    }
    Thread.interrupted();
    job.close();
  }

  private static void random(Fixture with) throws Exception {
    final int rounds = 10_000;
    Random random = new Random(1);
    var readers = Executors.newFixedThreadPool(50);
    var clock = Executors.newScheduledThreadPool(2);
    List<Future<?>> jobs = new ArrayList<>();
    try (Cache cache = with.model.createCache(new CacheOptions().maxTokens(2048))) {
      for (int i = 0; i < rounds; i++) {
        int kind = random.nextInt(5);
        int micros = random.nextInt(5000);
        jobs.add(readers.submit(() -> readToTheEnd(cache, clock, kind, micros)));
      }
      for (Future<?> job : jobs) {
        job.get();
      }
      awaitIdle(cache);
    }
    readers.shutdown();
    clock.shutdown();
    check(readers.awaitTermination(60, TimeUnit.SECONDS), "readers");
  }
}
