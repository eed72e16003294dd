package dev.quire.springai;

import dev.quire.Answer;
import dev.quire.ChatEngine;
import dev.quire.Event;
import dev.quire.Job;
import java.util.List;
import java.util.Objects;
import org.springframework.ai.chat.model.ChatModel;
import org.springframework.ai.chat.model.ChatResponse;
import org.springframework.ai.chat.prompt.ChatOptions;
import org.springframework.ai.chat.prompt.Prompt;
import reactor.adapter.JdkFlowAdapter;
import reactor.core.publisher.Flux;

/**
 * Spring AI's chat model, whole and streamed, with a model in this process. A call blocks its thread. A Flux
 * blocks none, and its job does not run ahead of the demand. Tool calls are returned as such; the application
 * runs its tools. Failures are a {@link dev.quire.QuireException} with code and message of the library.
 */
public final class QuireChatModel implements ChatModel {
  private final ChatEngine engine;
  private final QuireChatOptions options;

  /** Creates a model with default options for prompts. The caller owns the engine. */
  public QuireChatModel(ChatEngine engine, QuireChatOptions options) {
    this.engine = Objects.requireNonNull(engine, "engine");
    this.options = Objects.requireNonNull(options, "options");
  }

  /** Creates a model with every default. */
  public QuireChatModel(ChatEngine engine) {
    this(engine, QuireChatOptions.builder().build());
  }

  @Override
  public ChatResponse call(Prompt prompt) {
    QuireChatOptions merged = merged(prompt);
    Answer answer = new Answer();
    try (Job job = Requests.submit(engine, prompt, merged)) {
      job.forEach(answer::take);
      return Responses.whole(job, answer, merged);
    }
  }

  /** Streams an answer. Cancelling ends the job within a step. Each subscription is a request. */
  @Override
  public Flux<ChatResponse> stream(Prompt prompt) {
    QuireChatOptions merged = merged(prompt);
    return Flux.using(() -> Requests.submit(engine, prompt, merged), job -> stream(job, merged), Job::close);
  }

  private static Flux<ChatResponse> stream(Job job, QuireChatOptions options) {
    Answer answer = new Answer();
    return JdkFlowAdapter.flowPublisherToFlux(job.publisher())
        .concatMapIterable((Event event) -> taken(job, answer, event, options), 1);
  }

  private static List<ChatResponse> taken(Job job, Answer answer, Event event, QuireChatOptions options) {
    answer.take(event);
    return Responses.said(job, answer, event, options);
  }

  private QuireChatOptions merged(Prompt prompt) {
    ChatOptions said = prompt.getOptions();
    return said == null ? options : options.mutate().combineWith(said.mutate()).build();
  }

  @Override
  public ChatOptions getOptions() {
    return options;
  }
}
