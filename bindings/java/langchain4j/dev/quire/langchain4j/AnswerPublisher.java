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

/** A request as a stream of langchain4j's events: each subscription is a job, which does not run ahead of its demand. */
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

  /** The subscription of a stream that has failed before it began. */
  private static final class Nothing implements Flow.Subscription {
    @Override
    public void request(long count) {
      // there is nothing to give
    }

    @Override
    public void cancel() {
      // it is over
    }
  }

  /** Between the events of a job and a subscriber: of one event of the job come none, one or several. */
  private static final class Relay implements Flow.Subscriber<Event>, Flow.Subscription {
    private final Job job;
    private final ChatRequest request;
    private final Flow.Subscriber<? super ChatModelStreamingEvent> subscriber;
    private final Answer answer = new Answer();
    /** Touched by the thread that has the turn. */
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

    /** Frees the job, which ends it within a step where it is not over. */
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

    /** One thread at a time; another one leaves its turn to that. */
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
