package dev.quire.springai;

import dev.quire.Answer;
import dev.quire.Event;
import dev.quire.Job;
import dev.quire.Usage;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.springframework.ai.chat.messages.AssistantMessage;
import org.springframework.ai.chat.metadata.ChatGenerationMetadata;
import org.springframework.ai.chat.metadata.ChatResponseMetadata;
import org.springframework.ai.chat.metadata.DefaultUsage;
import org.springframework.ai.chat.model.ChatResponse;
import org.springframework.ai.chat.model.Generation;

/** Converts events and answers of jobs to Spring AI. */
final class Responses {
  /** Key of the metadata with the reasoning of a message, as in Spring AI's other models. */
  static final String REASONING = "reasoningContent";

  private Responses() {}

  static ChatResponse whole(Job job, Answer answer, QuireChatOptions options) {
    AssistantMessage message = AssistantMessage.builder()
        .content(answer.text())
        .properties(answer.reasoning().isEmpty() ? Map.of() : Map.of(REASONING, answer.reasoning()))
        .toolCalls(answer.calls().stream().map(Responses::call).toList())
        .build();
    return response(message, metadata(job, options).usage(usage(answer.usage())).build(), finishReason(answer));
  }

  /**
   * Returns the pieces for an event that the answer has just taken: none, one, or the last one with reason
   * and usage.
   */
  static List<ChatResponse> said(Job job, Answer answer, Event event, QuireChatOptions options) {
    List<ChatResponse> said = new ArrayList<>();
    String text = event.responseText();
    AssistantMessage.Builder<?> message = AssistantMessage.builder().content("");
    switch (event.responseKind()) {
      case TEXT -> message.content(text);
      case REASONING -> message.properties(Map.of(REASONING, text));
      case CALL_END -> message.toolCalls(List.of(call(answer.current())));
      default -> message = null;
    }
    if (message != null) {
      said.add(response(message.build(), metadata(job, options).build(), null));
    }
    if (event.isLast()) {
      said.add(response(new AssistantMessage(""), metadata(job, options).usage(usage(event.usage())).build(),
          finishReason(answer)));
    }
    return said;
  }

  private static ChatResponse response(AssistantMessage message, ChatResponseMetadata metadata, String finishReason) {
    ChatGenerationMetadata generation = ChatGenerationMetadata.builder().finishReason(finishReason).build();
    return new ChatResponse(List.of(new Generation(message, generation)), metadata);
  }

  private static ChatResponseMetadata.Builder metadata(Job job, QuireChatOptions options) {
    ChatResponseMetadata.Builder made = ChatResponseMetadata.builder().id("quire-" + job.id());
    return options.getModel() == null ? made : made.model(options.getModel());
  }

  private static AssistantMessage.ToolCall call(Answer.Call call) {
    return new AssistantMessage.ToolCall(call.id(), "function", call.name(), call.arguments());
  }

  private static DefaultUsage usage(Usage usage) {
    int prompt = (int) usage.promptTokens();
    int drawn = (int) usage.newTokens();
    return new DefaultUsage(prompt, drawn, prompt + drawn, usage, usage.cachedTokens(), null);
  }

  private static String finishReason(Answer answer) {
    return switch (answer.finishReason()) {
      case LENGTH, MAX_SEQ_LEN -> "LENGTH";
      case STOP_TOKEN, STOP_STRING, COMPLETED -> answer.calls().isEmpty() ? "STOP" : "TOOL_CALLS";
      default -> answer.finishReason().name();
    };
  }
}
