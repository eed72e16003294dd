package dev.quire.langchain4j;

import dev.langchain4j.model.chat.request.ChatRequest;
import dev.langchain4j.model.chat.response.ChatModelStreamingEvent;
import dev.quire.Answer;
import dev.quire.Event;
import dev.quire.Job;
import dev.quire.QuireException;
import java.util.ArrayDeque;
import java.util.Queue;
import java.util.concurrent.Flow;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

/**
 * A request as a stream of langchain4j's events. Each subscription is a job, which does not run ahead of its
 * demand.
 */
final class AnswerPublisher implements Flow.Publisher<ChatModelStreamingEvent> {
  private final ChatModelSettings settings;
  private final ChatRequest request;

  AnswerPublisher(ChatModelSettings settings, ChatRequest request) {
    this.settings = settings;
    this.request = request;
  }

  @Override
  public void subscribe(Flow.Subscriber<? super ChatModelStreamingEvent> subscriber) {
    Job job;
    try {
      job = Requests.submit(settings, request);
    } catch (RuntimeException failure) {
      subscriber.onSubscribe(new Nothing());
      subscriber.onError(failure instanceof QuireException refusal ? Failures.of(refusal) : failure);
      return;
    }
    job.publisher().subscribe(new Relay(job, request, subscriber));
  }

  /** Subscription of a stream that failed before it began. */
  private static final class Nothing implements Flow.Subscription {
    @Override
    public void request(long count) {
      // there are no events
    }

    @Override
    public void cancel() {
      // it has already ended
    }
  }

  /** Converts the events of a job for a subscriber; an event of the job becomes none, one or several. */
  private static final class Relay implements Flow.Subscriber<Event>, Flow.Subscription {
    private final Job job;
    private final ChatRequest request;
    private final Flow.Subscriber<? super ChatModelStreamingEvent> subscriber;
    private final Answer answer = new Answer();
    /** Used only by the thread that runs pump. */
    private final Queue<ChatModelStreamingEvent> ready = new ArrayDeque<>();
    private final AtomicLong demand = new AtomicLong();
    private final AtomicInteger turns = new AtomicInteger();
    private Flow.Subscription events;
    private volatile Event arrived;
    private volatile Throwable failure;
    private volatile boolean exhausted;
    private volatile boolean over;
    private boolean asked;

    Relay(Job job, ChatRequest request, Flow.Subscriber<? super ChatModelStreamingEvent> subscriber) {
      this.job = job;
      this.request = request;
      this.subscriber = subscriber;
    }

    @Override
    public void onSubscribe(Flow.Subscription begun) {
      events = begun;
      subscriber.onSubscribe(this);
    }

    @Override
    public void request(long count) {
      if (count <= 0) {
        failure = new IllegalArgumentException("request of " + count + " events");
      } else {
        demand.accumulateAndGet(count, (have, more) -> have + more < 0 ? Long.MAX_VALUE : have + more);
      }
      pump();
    }

    /** Frees the job, which ends within a step if it is still running. */
    @Override
    public void cancel() {
      over = true;
      events.cancel();
      job.close();
    }

    @Override
    public void onNext(Event event) {
      arrived = event;
      pump();
    }

    @Override
    public void onError(Throwable thrown) {
      failure = thrown instanceof QuireException refusal ? Failures.of(refusal) : thrown;
      pump();
    }

    @Override
    public void onComplete() {
      exhausted = true;
      pump();
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
      takeArrived();
      while (!over && demand.get() > 0 && !ready.isEmpty()) {
        demand.decrementAndGet();
        subscriber.onNext(ready.remove());
      }
      if (over) {
        return;
      }
      if (failure != null) {
        cancel();
        subscriber.onError(failure);
      } else if (ready.isEmpty() && exhausted) {
        cancel();
        subscriber.onComplete();
      } else if (ready.isEmpty() && demand.get() > 0 && !asked) {
        asked = true;
        events.request(1);
      }
    }

    private void takeArrived() {
      Event event = arrived;
      if (event == null || over) {
        return;
      }
      arrived = null;
      asked = false;
      answer.take(event);
      Responses.addTo(ready, event, answer);
      if (event.isLast()) {
        ready.add(Responses.complete(job, answer, request));
      }
    }
  }
}
