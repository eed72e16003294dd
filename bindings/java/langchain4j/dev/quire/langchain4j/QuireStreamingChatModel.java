package dev.quire.langchain4j;

import dev.langchain4j.model.chat.StreamingChatModel;
import dev.langchain4j.model.chat.request.ChatRequest;
import dev.langchain4j.model.chat.response.ChatModelStreamingEvent;
import dev.langchain4j.model.chat.response.StreamingChatResponseHandler;
import dev.quire.ChatEngine;
import java.util.concurrent.Flow;

/**
 * langchain4j's streaming chat model with a model in this process. Handlers and subscribers are called on the
 * common pool, and no thread blocks meanwhile. Cancelling, by the handle of a handler or by the subscription,
 * ends the job within a step; no events follow.
 */
public final class QuireStreamingChatModel extends ConfiguredModel implements StreamingChatModel {
  private QuireStreamingChatModel(ChatModelSettings.Builder<?> builder) {
    super(builder.settings());
  }

  /** Creates a model with every default. */
  public static QuireStreamingChatModel of(ChatEngine engine) {
    return builder().engine(engine).build();
  }

  public static Builder builder() {
    return new Builder();
  }

  public static final class Builder extends ChatModelSettings.Builder<Builder> {
    private Builder() {}

    public QuireStreamingChatModel build() {
      return new QuireStreamingChatModel(this);
    }
  }

  @Override
  public void doChat(ChatRequest request, StreamingChatResponseHandler handler) {
    new AnswerPublisher(settings, request).subscribe(new HandlerSubscriber(handler));
  }

  @Override
  public Flow.Publisher<ChatModelStreamingEvent> doChat(ChatRequest request) {
    return new AnswerPublisher(settings, request);
  }
}
