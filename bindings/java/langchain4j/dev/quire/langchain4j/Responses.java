package dev.quire.langchain4j;

import dev.langchain4j.agent.tool.ToolExecutionRequest;
import dev.langchain4j.data.message.AiMessage;
import dev.langchain4j.model.chat.request.ChatRequest;
import dev.langchain4j.model.chat.response.ChatModelStreamingEvent;
import dev.langchain4j.model.chat.response.ChatResponse;
import dev.langchain4j.model.chat.response.ChatResponseMetadata;
import dev.langchain4j.model.chat.response.CompleteResponse;
import dev.langchain4j.model.chat.response.CompleteToolCall;
import dev.langchain4j.model.chat.response.PartialResponse;
import dev.langchain4j.model.chat.response.PartialThinking;
import dev.langchain4j.model.chat.response.PartialToolCall;
import dev.langchain4j.model.output.FinishReason;
import dev.langchain4j.model.output.TokenUsage;
import dev.quire.Answer;
import dev.quire.Event;
import dev.quire.Job;
import dev.quire.Usage;
import java.util.Collection;

/** Converts events and answers of jobs to langchain4j. */
final class Responses {
  private Responses() {}

  /** Adds the events for an event that the answer has just taken. */
  static void addTo(Collection<ChatModelStreamingEvent> said, Event event, Answer answer) {
    String text = event.responseText();
    switch (event.responseKind()) {
      case TEXT -> {
        if (!text.isEmpty()) {
          said.add(new PartialResponse(text));
        }
      }
      case REASONING -> {
        if (!text.isEmpty()) {
          said.add(new PartialThinking(text));
        }
      }
      case ARGUMENTS -> {
        Answer.Call call = answer.current();
        said.add(PartialToolCall.builder().index(call.index()).id(call.id()).name(call.name()).partialArguments(text).build());
      }
      case CALL_END -> {
        Answer.Call call = answer.current();
        said.add(new CompleteToolCall(call.index(), execution(call)));
      }
      default -> { }
    }
  }

  static CompleteResponse complete(Job job, Answer answer, ChatRequest request) {
    return new CompleteResponse(response(job, answer, request));
  }

  static ChatResponse response(Job job, Answer answer, ChatRequest request) {
    AiMessage message = AiMessage.builder()
        .text(answer.text().isEmpty() && !answer.calls().isEmpty() ? null : answer.text())
        .thinking(answer.reasoning().isEmpty() ? null : answer.reasoning())
        .toolExecutionRequests(answer.calls().stream().map(Responses::execution).toList())
        .build();
    ChatResponseMetadata metadata = ChatResponseMetadata.builder()
        .id("quire-" + job.id())
        .modelName(request.modelName())
        .tokenUsage(usage(answer.usage()))
        .finishReason(finishReason(answer))
        .build();
    return ChatResponse.builder().aiMessage(message).metadata(metadata).build();
  }

  private static ToolExecutionRequest execution(Answer.Call call) {
    return ToolExecutionRequest.builder().id(call.id()).name(call.name()).arguments(call.arguments()).build();
  }

  static TokenUsage usage(Usage usage) {
    return new TokenUsage((int) usage.promptTokens(), (int) usage.newTokens());
  }

  private static FinishReason finishReason(Answer answer) {
    return switch (answer.finishReason()) {
      case LENGTH, MAX_SEQ_LEN -> FinishReason.LENGTH;
      case STOP_TOKEN, STOP_STRING, COMPLETED -> answer.calls().isEmpty() ? FinishReason.STOP : FinishReason.TOOL_EXECUTION;
      default -> FinishReason.OTHER;
    };
  }
}
