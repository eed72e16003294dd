package dev.quire;

import java.util.Optional;
import java.util.concurrent.Flow;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Delivers the events of a job to one subscriber, as many as it requests, one after another on the common
 * pool.
 */
final class JobSubscription implements Flow.Subscription {
  private final Job job;
  private final Flow.Subscriber<? super Event> subscriber;
  private final AtomicLong demand = new AtomicLong();
  private final AtomicInteger turns = new AtomicInteger();
  private volatile boolean over;

  JobSubscription(Job job, Flow.Subscriber<? super Event> subscriber) {
    this.job = job;
    this.subscriber = subscriber;
  }

  @Override
  public void request(long count) {
    if (count <= 0) {
      finish();
      subscriber.onError(new IllegalArgumentException("request of " + count + " events"));
      return;
    }
    demand.accumulateAndGet(count, (have, more) -> have + more < 0 ? Long.MAX_VALUE : have + more);
    pump();
  }

  @Override
  public void cancel() {
    if (!over) {
      over = true;
      job.cancel();
    }
  }

  private void finish() {
    over = true;
  }

  /** Delivers events on one thread at a time; a second thread leaves the work to the first. */
  private void pump() {
    if (turns.getAndIncrement() != 0) {
      return;
    }
    int done = 1;
    do {
      give();
      done = turns.addAndGet(-done);
    } while (done != 0);
  }

  private void give() {
    while (!over && demand.get() > 0) {
      long seen = job.news();
      try {
        Optional<Event> event = job.poll(java.time.Duration.ZERO);
        if (event.isPresent()) {
          demand.decrementAndGet();
          subscriber.onNext(event.get());
        } else if (job.isDrained()) {
          finish();
          subscriber.onComplete();
        } else {
          job.onNews(seen, this::pump);
          return;
        }
      } catch (RuntimeException failure) {
        finish();
        subscriber.onError(failure);
      }
    }
  }
}
