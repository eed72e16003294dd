package dev.quire.langchain4j;

import dev.langchain4j.model.chat.ChatModel;
import dev.langchain4j.model.chat.request.ChatRequest;
import dev.langchain4j.model.chat.response.ChatModelStreamingEvent;
import dev.langchain4j.model.chat.response.ChatResponse;
import dev.langchain4j.model.chat.response.CompleteResponse;
import dev.quire.Answer;
import dev.quire.ChatEngine;
import dev.quire.Job;
import dev.quire.QuireException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Flow;

/**
 * langchain4j's chat model with a model in this process. A call blocks its thread, which may be virtual.
 * {@code chatAsync} blocks none, and cancelling its future ends the job within a step.
 */
public final class QuireChatModel extends ConfiguredModel implements ChatModel {
  private QuireChatModel(ChatModelSettings.Builder<?> builder) {
    super(builder.settings());
  }

  /** Creates a model with every default. */
  public static QuireChatModel of(ChatEngine engine) {
    return builder().engine(engine).build();
  }

  public static Builder builder() {
    return new Builder();
  }

  public static final class Builder extends ChatModelSettings.Builder<Builder> {
    private Builder() {}

    public QuireChatModel build() {
      return new QuireChatModel(this);
    }
  }

  @Override
  public ChatResponse doChat(ChatRequest request) {
    Answer answer = new Answer();
    try (Job job = Requests.submit(settings, request)) {
      job.forEach(answer::take);
      return Responses.response(job, answer, request);
    } catch (QuireException failure) {
      throw Failures.of(failure);
    }
  }

  @Override
  public CompletableFuture<ChatResponse> doChatAsync(ChatRequest request) {
    Whole whole = new Whole();
    new AnswerPublisher(settings, request).subscribe(whole);
    return whole;
  }

  /** The last event of a stream as a future. */
  private static final class Whole extends CompletableFuture<ChatResponse>
      implements Flow.Subscriber<ChatModelStreamingEvent> {
    private volatile Flow.Subscription subscription;

    @Override
    public void onSubscribe(Flow.Subscription begun) {
      subscription = begun;
      begun.request(Long.MAX_VALUE);
    }

    @Override
    public void onNext(ChatModelStreamingEvent event) {
      if (event instanceof CompleteResponse last) {
        complete(last.chatResponse());
      }
    }

    @Override
    public void onError(Throwable failure) {
      completeExceptionally(failure);
    }

    @Override
    public void onComplete() {
      // the last event came before
    }

    @Override
    public boolean cancel(boolean mayInterrupt) {
      boolean cancelled = super.cancel(mayInterrupt);
      if (cancelled) {
        subscription.cancel();
      }
      return cancelled;
    }
  }
}
