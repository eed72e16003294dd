package dev.quire.springai;

import static dev.quire.Conversation.object;

import dev.quire.ChatEngine;
import dev.quire.Conversation;
import dev.quire.Job;
import dev.quire.Request;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.springframework.ai.chat.messages.AssistantMessage;
import org.springframework.ai.chat.messages.Message;
import org.springframework.ai.chat.messages.ToolResponseMessage;
import org.springframework.ai.chat.prompt.Prompt;
import org.springframework.ai.content.MediaContent;
import org.springframework.ai.tool.ToolCallback;
import org.springframework.ai.tool.definition.ToolDefinition;
import tools.jackson.databind.json.JsonMapper;

/** Converts Spring AI's prompts to jobs. */
final class Requests {
  private static final JsonMapper JSON = JsonMapper.shared();

  private Requests() {}

  static Job submit(ChatEngine engine, Prompt prompt, QuireChatOptions options) {
    return engine.submit(conversation(prompt, options), sampling(engine, options), options.getMaxTokens());
  }

  private static Request sampling(ChatEngine engine, QuireChatOptions options) {
    Request made = engine.request(options.getTemperature(), options.getTopP(), options.getTopK(),
        options.getFrequencyPenalty(), options.getPresencePenalty(), options.getStopSequences());
    return options.getSeed() == null ? made : made.randomSeed(false).seed(options.getSeed());
  }

  private static Conversation conversation(Prompt prompt, QuireChatOptions options) {
    List<Object> messages = new ArrayList<>();
    prompt.getInstructions().forEach(message -> add(messages, message));
    List<ToolCallback> tools = options.getToolCallbacks();
    String schema = options.getOutputSchema();
    return new Conversation(JSON.writeValueAsString(messages),
        tools == null || tools.isEmpty() ? null : JSON.writeValueAsString(tools.stream().map(Requests::tool).toList()),
        choice(options.getToolChoice()),
        schema == null ? null : JSON.writeValueAsString(
            object("type", "json_schema", "json_schema", object("schema", JSON.readTree(schema)))),
        Boolean.FALSE.equals(options.getParallelToolCalls()) ? Conversation.Calls.SINGLE : Conversation.Calls.FREE);
  }

  private static String choice(String choice) {
    if (choice == null) {
      return null;
    }
    return JSON.writeValueAsString(switch (choice) {
      case "auto", "none", "required" -> choice;
      default -> object("type", "function", "function", object("name", choice));
    });
  }

  private static Map<String, Object> tool(ToolCallback callback) {
    ToolDefinition tool = callback.getToolDefinition();
    return object("type", "function", "function", object("name", tool.name(), "description", tool.description(),
        "parameters", JSON.readTree(tool.inputSchema())));
  }

  private static void add(List<Object> messages, Message message) {
    if (message instanceof MediaContent media && !media.getMedia().isEmpty()) {
      throw new UnsupportedOperationException("messages: media of the type " + media.getMedia().iterator().next().getMimeType()
          + " is not supported; only text is");
    }
    String text = message.getText() == null ? "" : message.getText();
    switch (message.getMessageType()) {
      case SYSTEM -> messages.add(object("role", "system", "content", text));
      case USER -> messages.add(object("role", "user", "content", text));
      case ASSISTANT -> messages.add(answer((AssistantMessage) message, text));
      case TOOL -> ((ToolResponseMessage) message).getResponses().forEach(result -> messages.add(object("role", "tool",
          "tool_call_id", result.id(), "name", result.name(), "content", result.responseData())));
    }
  }

  private static Map<String, Object> answer(AssistantMessage message, String text) {
    List<Map<String, Object>> calls = message.getToolCalls().stream().map(call -> object("id", call.id(), "type", "function",
        "function", object("name", call.name(), "arguments", call.arguments()))).toList();
    return object("role", "assistant", "content", text, "reasoning_content", message.getMetadata().get(Responses.REASONING),
        "tool_calls", calls.isEmpty() ? null : calls);
  }
}
