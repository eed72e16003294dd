package dev.quire.langchain4j;

import dev.langchain4j.model.chat.listener.ChatModelListener;
import dev.langchain4j.model.chat.request.ChatRequestParameters;
import dev.langchain4j.model.chat.request.DefaultChatRequestParameters;
import dev.quire.ChatEngine;
import java.util.List;
import java.util.Objects;

/** What answers the requests of a chat model, and what it adds to each of them. */
record ChatModelSettings(ChatEngine engine, ChatRequestParameters parameters, List<ChatModelListener> listeners,
    boolean parallelCalls) {
  /** What the builders of both chat models have. */
  @SuppressWarnings("unchecked")
  public abstract static class Builder<T extends Builder<T>> {
    private ChatEngine engine;
    private ChatRequestParameters parameters = DefaultChatRequestParameters.EMPTY;
    private List<ChatModelListener> listeners = List.of();
    private boolean parallelCalls = true;

    Builder() {}

    /** The model that answers; it stays the caller's, and may serve any number of these. */
    public T engine(ChatEngine chosen) {
      engine = chosen;
      return (T) this;
    }

    /** What a request does not say. */
    public T defaultRequestParameters(ChatRequestParameters defaults) {
      parameters = Objects.requireNonNull(defaults, "parameters");
      return (T) this;
    }

    public T listeners(List<ChatModelListener> told) {
      listeners = List.copyOf(told);
      return (T) this;
    }

    /** False: an answer has one call at most, which keeps to the schema of its tool. True by default. */
    public T parallelToolCalls(boolean parallel) {
      parallelCalls = parallel;
      return (T) this;
    }

    ChatModelSettings settings() {
      return new ChatModelSettings(Objects.requireNonNull(engine, "engine"), parameters, listeners, parallelCalls);
    }
  }
}
