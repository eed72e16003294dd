package story;

import static story.Fixture.check;
import static story.Fixture.greedy;

import dev.quire.Cache;
import dev.quire.CacheOptions;
import dev.quire.Event;
import dev.quire.Job;
import dev.quire.JobInfo;
import dev.quire.FinishReason;
import dev.quire.ErrorCode;
import java.io.File;
import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Flow;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;

/** The cost of waiting, and the ways to end a wait. */
public final class WaitsTest {
  private WaitsTest() {}

  public static void main(String[] arguments) throws Exception {
    Fixture.run(arguments, "a thousand waits block no thread of the library", WaitsTest::crowd);
    Fixture.run(arguments, "streams do not delay other virtual threads", WaitsTest::ticks);
    Fixture.run(arguments, "an interrupt ends the wait, a cancelled future the job", WaitsTest::cancels);
    Fixture.run(arguments, "iterator, stream and publisher give the same text", WaitsTest::shapes);
  }

  private static int numThreads() {
    return new File("/proc/self/task").list().length;
  }

  /** Starts a virtual thread if this JVM has them, otherwise a platform thread. */
  private static Thread start(Runnable body) throws Exception {
    try {
      return (Thread) Thread.class.getMethod("startVirtualThread", Runnable.class).invoke(null, body);
    } catch (NoSuchMethodException older) {
      Thread thread = new Thread(null, body, "waiter", 128 << 10);
      thread.start();
      return thread;
    }
  }

  /**
   * Returns how often the threads of the library and of this layer were woken so far. Threads of the JVM do
   * not count.
   */
  private static long wakeups() throws Exception {
    long sum = 0;
    for (File task : new File("/proc/self/task").listFiles()) {
      List<String> lines = status(task);
      if (lines.isEmpty() || !lines.get(0).startsWith("Name:\tquire")) {
        continue;
      }
      for (String line : lines) {
        if (line.startsWith("voluntary_ctxt_switches:")) {
          sum += Long.parseLong(line.split(":")[1].trim());
        }
      }
    }
    return sum;
  }

  /** Returns an empty list for a thread that has ended in the meantime. */
  private static List<String> status(File task) {
    try {
      return Files.readAllLines(task.toPath().resolve("status"));
    } catch (java.io.IOException ended) {
      return List.of();
    }
  }

  private static long cpuTime() {
    return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
  }

  /**
   * Returns the shortest time of twenty full collections, in milliseconds. Other programs only make one
   * longer.
   */
  private static double collection() {
    double least = Double.MAX_VALUE;
    for (int i = 0; i < 20; i++) {
      long start = System.nanoTime();
      System.gc();
      least = Math.min(least, (System.nanoTime() - start) / 1e6);
    }
    return least;
  }

  /** Does the same while as many threads wait for a Java latch: the cost of their stacks. */
  private static double collectionBeside(int count) throws Exception {
    CountDownLatch over = new CountDownLatch(1);
    List<Thread> threads = new ArrayList<>();
    while (threads.size() < count) {
      threads.add(start(() -> {
        try {
          over.await();
        } catch (InterruptedException unexpected) {
          throw new AssertionError(unexpected);
        }
      }));
    }
    Thread.sleep(500);
    double took = collection();
    over.countDown();
    for (Thread thread : threads) {
      thread.join();
    }
    return took;
  }

  private static void crowd(Fixture with) throws Exception {
    final int count = 1000;
    double alone = collection();
    int before = numThreads();
    double beside = collectionBeside(count);
    try (Cache cache = with.model.createCache(new CacheOptions().maxTokens(2048).maxQueue(2 * count))) {
      // A paused job yields its turn to others, so the cache is idle only if all jobs are paused.
      List<Job> jobs = new ArrayList<>();
      List<Thread> threads = new ArrayList<>();
      while (jobs.size() < count) {
        Job job = cache.submit(greedy("Once", 1900).ignoreEos(true));
        job.pause();
        jobs.add(job);
        threads.add(start(() -> job.forEach(event -> {})));
      }
      boolean virtual = !threads.get(0).toString().contains("waiter");
      Thread.sleep(1500);
      int more = numThreads() - before - (virtual ? 0 : count);
      check(more <= 8 + Runtime.getRuntime().availableProcessors(), more + " threads more");
      long steps = cache.stats().steps();
      long woken = wakeups();
      long cpu = cpuTime();
      Thread.sleep(1000);
      cpu = cpuTime() - cpu;
      woken = wakeups() - woken;
      System.out.printf("%s threads: %d native ones more, %d wakeups, %.1f %% of a core, a collection in %.1f ms, before "
          + "in %.1f ms, with as many threads on a latch in %.1f ms%n", virtual ? "virtual" : "platform", more, woken, cpu / 1e7,
          collection(), alone, beside);
      check(cache.stats().steps() == steps && woken < 50, woken + " wakeups while nothing happens");
      jobs.forEach(Job::cancel);
      for (Thread thread : threads) {
        thread.join();
      }
      jobs.forEach(Job::close);
    }
  }

  /**
   * Returns in milliseconds how late a thread that sleeps for 5 ms at a time wakes at most, until `over` is
   * true.
   */
  private static double lateness(BooleanSupplier over) throws Exception {
    long[] latest = new long[1];
    Thread ticker = start(() -> {
      while (!over.getAsBoolean()) {
        long start = System.nanoTime();
        java.util.concurrent.locks.LockSupport.parkNanos(5_000_000);
        latest[0] = Math.max(latest[0], System.nanoTime() - start - 5_000_000);
      }
    });
    ticker.join();
    return latest[0] / 1e6;
  }

  /** Prints that lateness while 32 threads stream, and without them. It is not checked. */
  private static void ticks(Fixture with) throws Exception {
    long second = System.nanoTime() + 1_000_000_000L;
    double alone = lateness(() -> System.nanoTime() > second);
    try (Cache cache = with.model.createCache(new CacheOptions().maxTokens(32 * 256))) {
      List<Job> jobs = cache.submitMany(greedy("Once upon a time", 128).ignoreEos(true), 32);
      List<Thread> threads = new ArrayList<>();
      for (Job job : jobs) {
        threads.add(start(() -> job.forEach(event -> {})));
      }
      double latest = lateness(() -> jobs.stream().allMatch(job -> job.waitFor(Duration.ZERO)));
      for (Thread thread : threads) {
        thread.join();
      }
      System.out.printf("a ticker of 5 ms was late by %.1f ms at most, alone by %.1f ms%n", latest, alone);
      jobs.forEach(Job::close);
    }
  }

  private static void cancels(Fixture with) throws Exception {
    Job job = with.cache.submit(greedy("Once", 1900).ignoreEos(true));
    CountDownLatch ended = new CountDownLatch(1);
    Thread reader = new Thread(() -> {
      try {
        job.forEach(event -> {});
      } catch (dev.quire.QuireException interrupted) {
        if (interrupted.code() == ErrorCode.CANCELLED && Thread.currentThread().isInterrupted()) {
          ended.countDown();
        }
      }
    });
    reader.start();
    Thread.sleep(20);
    reader.interrupt();
    check(ended.await(10, TimeUnit.SECONDS), "the interrupt was not seen");
    CompletableFuture<JobInfo> future = job.future();
    check(future.cancel(true), "cancel");
    check(job.waitFor(Duration.ofSeconds(10)), "the job goes on");
    check(job.info().finishReason() == FinishReason.CANCELLED, job.info());
    try {
      future.join();
      check(false, "no exception");
    } catch (CancellationException expected) {
      // as with every cancelled future
    }
    job.close();
    try (Job short_ = with.cache.submit(greedy("Once", 3))) {
      check(short_.future().get(10, TimeUnit.SECONDS).newTokens() == 3, "the future has no result");
    }
  }

  private static void shapes(Fixture with) throws Exception {
    StringBuilder byIterator = new StringBuilder();
    try (Job job = with.cache.submit(greedy(with.prompt, 24))) {
      for (Event event : job) {
        byIterator.append(event.text());
      }
    }
    String byStream;
    try (var events = with.cache.submit(greedy(with.prompt, 24)).stream()) {
      byStream = events.map(Event::text).collect(Collectors.joining());
    }
    check(byStream.contentEquals(byIterator), byStream);
    StringBuilder byPublisher = new StringBuilder();
    CountDownLatch done = new CountDownLatch(1);
    try (Job job = with.cache.submit(greedy(with.prompt, 24))) {
      job.publisher().subscribe(new Flow.Subscriber<>() {
        private Flow.Subscription subscription;

        @Override
        public void onSubscribe(Flow.Subscription given) {
          subscription = given;
          given.request(1);
        }

        @Override
        public void onNext(Event event) {
          byPublisher.append(event.text());
          subscription.request(1);
        }

        @Override
        public void onError(Throwable failure) {
          byPublisher.append(failure);
          done.countDown();
        }

        @Override
        public void onComplete() {
          done.countDown();
        }
      });
      check(done.await(30, TimeUnit.SECONDS), "the publisher does not end");
      check(byPublisher.toString().contentEquals(byIterator), byPublisher);
    }
  }
}
