package dev.quire.langchain4j;

import dev.langchain4j.model.chat.listener.ChatModelListener;
import dev.langchain4j.model.chat.request.ChatRequestParameters;
import dev.langchain4j.model.chat.request.DefaultChatRequestParameters;
import dev.quire.ChatEngine;
import java.util.List;
import java.util.Objects;

/** Settings of a chat model: its engine, and defaults for each request. */
record ChatModelSettings(ChatEngine engine, ChatRequestParameters parameters, List<ChatModelListener> listeners,
    boolean parallelCalls) {
  /** Builder methods common to both chat models. */
  @SuppressWarnings("unchecked")
  public abstract static class Builder<T extends Builder<T>> {
    private ChatEngine engine;
    private ChatRequestParameters parameters = DefaultChatRequestParameters.EMPTY;
    private List<ChatModelListener> listeners = List.of();
    private boolean parallelCalls = true;

    Builder() {}

    /** Sets the engine. The caller owns it; it may serve any number of models. */
    public T engine(ChatEngine chosen) {
      engine = chosen;
      return (T) this;
    }

    /** Sets the defaults for requests. */
    public T defaultRequestParameters(ChatRequestParameters defaults) {
      parameters = Objects.requireNonNull(defaults, "parameters");
      return (T) this;
    }

    public T listeners(List<ChatModelListener> told) {
      listeners = List.copyOf(told);
      return (T) this;
    }

    /**
     * Sets whether an answer may have several calls. If false, it has at most one, which must match the
     * schema of its tool. Default: true.
     */
    public T parallelToolCalls(boolean parallel) {
      parallelCalls = parallel;
      return (T) this;
    }

    ChatModelSettings settings() {
      return new ChatModelSettings(Objects.requireNonNull(engine, "engine"), parameters, listeners, parallelCalls);
    }
  }
}
