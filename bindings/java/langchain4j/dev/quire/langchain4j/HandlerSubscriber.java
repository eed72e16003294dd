package dev.quire.langchain4j;

import dev.langchain4j.model.chat.response.ChatModelStreamingEvent;
import dev.langchain4j.model.chat.response.CompleteResponse;
import dev.langchain4j.model.chat.response.CompleteToolCall;
import dev.langchain4j.model.chat.response.PartialResponse;
import dev.langchain4j.model.chat.response.PartialResponseContext;
import dev.langchain4j.model.chat.response.PartialThinking;
import dev.langchain4j.model.chat.response.PartialThinkingContext;
import dev.langchain4j.model.chat.response.PartialToolCall;
import dev.langchain4j.model.chat.response.PartialToolCallContext;
import dev.langchain4j.model.chat.response.StreamingChatResponseHandler;
import dev.langchain4j.model.chat.response.StreamingHandle;
import java.util.concurrent.Flow;

/**
 * Passes the events of a stream to a handler. An exception of the handler is passed to its onError, and the
 * stream continues, as langchain4j requires.
 */
final class HandlerSubscriber implements Flow.Subscriber<ChatModelStreamingEvent>, StreamingHandle {
  private final StreamingChatResponseHandler handler;
  private Flow.Subscription subscription;
  private volatile boolean cancelled;

  HandlerSubscriber(StreamingChatResponseHandler handler) {
    this.handler = handler;
  }

  @Override
  public void onSubscribe(Flow.Subscription begun) {
    subscription = begun;
    begun.request(Long.MAX_VALUE);
  }

  @Override
  public void onNext(ChatModelStreamingEvent event) {
    if (cancelled) {
      return;
    }
    try {
      tell(event);
    } catch (RuntimeException thrown) {
      onError(thrown);
    }
  }

  private void tell(ChatModelStreamingEvent event) {
    if (event instanceof PartialResponse text) {
      handler.onPartialResponse(text, new PartialResponseContext(this));
    } else if (event instanceof PartialThinking thought) {
      handler.onPartialThinking(thought, new PartialThinkingContext(this));
    } else if (event instanceof PartialToolCall call) {
      handler.onPartialToolCall(call, new PartialToolCallContext(this));
    } else if (event instanceof CompleteToolCall call) {
      handler.onCompleteToolCall(call);
    } else if (event instanceof CompleteResponse last) {
      handler.onCompleteResponse(last.chatResponse());
    }
  }

  @Override
  public void onError(Throwable failure) {
    try {
      handler.onError(failure);
    } catch (RuntimeException thrown) {
      System.getLogger(HandlerSubscriber.class.getName())
          .log(System.Logger.Level.WARNING, "onError of a handler has thrown an exception", thrown);
    }
  }

  @Override
  public void onComplete() {
    // the last event was the end
  }

  @Override
  public void cancel() {
    cancelled = true;
    subscription.cancel();
  }

  @Override
  public boolean isCancelled() {
    return cancelled;
  }
}
