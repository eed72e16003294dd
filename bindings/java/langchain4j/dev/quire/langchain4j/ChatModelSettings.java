package dev.quire.langchain4j;

import dev.langchain4j.agent.tool.ToolSpecification;
import dev.langchain4j.model.chat.listener.ChatModelListener;
import dev.langchain4j.model.chat.request.ChatRequestParameters;
import dev.langchain4j.model.chat.request.DefaultChatRequestParameters;
import dev.langchain4j.model.chat.request.ResponseFormat;
import dev.langchain4j.model.chat.request.ToolChoice;
import dev.quire.ChatEngine;
import java.util.List;
import java.util.Objects;

/** Settings of a chat model: its engine, and defaults for each request. */
record ChatModelSettings(ChatEngine engine, ChatRequestParameters parameters, List<ChatModelListener> listeners,
    boolean parallelCalls, Long seed) {
  /** Builder methods common to both chat models. */
  @SuppressWarnings("unchecked")
  public abstract static class Builder<T extends Builder<T>> {
    private ChatEngine engine;
    private ChatRequestParameters parameters = DefaultChatRequestParameters.EMPTY;
    /** Defaults set one by one, which override those of `parameters`. */
    private final DefaultChatRequestParameters.Builder<?> own = ChatRequestParameters.builder();
    private List<ChatModelListener> listeners = List.of();
    private boolean parallelCalls = true;
    private Long seed;

    Builder() {}

    /** Sets the engine. The caller owns it; it may serve any number of models. */
    public T engine(ChatEngine chosen) {
      engine = chosen;
      return (T) this;
    }

    /** Sets the defaults for requests. The methods below set one of them each, which comes first. */
    public T defaultRequestParameters(ChatRequestParameters defaults) {
      parameters = Objects.requireNonNull(defaults, "defaults");
      return (T) this;
    }

    /** Sets the name in the metadata of answers; an engine has one model. */
    public T modelName(String name) {
      own.modelName(name);
      return (T) this;
    }

    /** Sets the default temperature; without one, that of the model's authors. */
    public T temperature(Double temperature) {
      own.temperature(temperature);
      return (T) this;
    }

    /** Sets the default share of the probability that tokens are drawn from. */
    public T topP(Double topP) {
      own.topP(topP);
      return (T) this;
    }

    /** Sets the default number of most likely tokens that are drawn from. */
    public T topK(Integer topK) {
      own.topK(topK);
      return (T) this;
    }

    /** Sets the default penalty for each earlier occurrence of a token. */
    public T frequencyPenalty(Double penalty) {
      own.frequencyPenalty(penalty);
      return (T) this;
    }

    /** Sets the default penalty for tokens that have occurred. */
    public T presencePenalty(Double penalty) {
      own.presencePenalty(penalty);
      return (T) this;
    }

    /** Sets the default maximum number of tokens of an answer; without one, what the cache allows. */
    public T maxOutputTokens(Integer maxOutputTokens) {
      own.maxOutputTokens(maxOutputTokens);
      return (T) this;
    }

    /** Sets the default texts that end an answer. */
    public T stopSequences(List<String> texts) {
      own.stopSequences(texts);
      return (T) this;
    }

    /** Sets the default tools. */
    public T toolSpecifications(List<ToolSpecification> tools) {
      own.toolSpecifications(tools);
      return (T) this;
    }

    /** Sets whether an answer has to call a tool by default. */
    public T toolChoice(ToolChoice choice) {
      own.toolChoice(choice);
      return (T) this;
    }

    /** Sets the default format of answers, such as a JSON schema, which a constraint enforces. */
    public T responseFormat(ResponseFormat format) {
      own.responseFormat(format);
      return (T) this;
    }

    /** Sets the seed of every request; without one, each request draws its own. */
    public T seed(Long drawn) {
      seed = drawn;
      return (T) this;
    }

    /** Sets the listeners of requests and answers. */
    public T listeners(List<ChatModelListener> told) {
      listeners = List.copyOf(Objects.requireNonNull(told, "told"));
      return (T) this;
    }

    /** Sets the listeners of requests and answers. */
    public T listeners(ChatModelListener... told) {
      return listeners(List.of(told));
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
      return new ChatModelSettings(Objects.requireNonNull(engine, "engine"), parameters.overrideWith(own.build()),
          listeners, parallelCalls, seed);
    }
  }
}
