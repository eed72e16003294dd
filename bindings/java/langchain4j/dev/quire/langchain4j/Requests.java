package dev.quire.langchain4j;

import static dev.quire.Conversation.object;

import dev.langchain4j.agent.tool.ToolExecutionRequest;
import dev.langchain4j.agent.tool.ToolSpecification;
import dev.langchain4j.data.message.AiMessage;
import dev.langchain4j.data.message.ChatMessage;
import dev.langchain4j.data.message.Content;
import dev.langchain4j.data.message.CustomMessage;
import dev.langchain4j.data.message.SystemMessage;
import dev.langchain4j.data.message.TextContent;
import dev.langchain4j.data.message.ToolExecutionResultMessage;
import dev.langchain4j.data.message.UserMessage;
import dev.langchain4j.exception.UnsupportedFeatureException;
import dev.langchain4j.internal.Json;
import dev.langchain4j.internal.JsonSchemaElementJsonUtils;
import dev.langchain4j.model.chat.request.ChatRequest;
import dev.langchain4j.model.chat.request.ChatRequestParameters;
import dev.langchain4j.model.chat.request.ResponseFormat;
import dev.langchain4j.model.chat.request.ResponseFormatType;
import dev.langchain4j.model.chat.request.ToolChoice;
import dev.langchain4j.model.chat.request.json.JsonSchema;
import dev.quire.ChatEngine;
import dev.quire.Conversation;
import dev.quire.Job;
import dev.quire.Request;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/** Converts langchain4j's requests to jobs. */
final class Requests {
  private Requests() {}

  static Job submit(ChatModelSettings settings, ChatRequest request) {
    ChatRequestParameters parameters = request.parameters();
    ChatEngine engine = settings.engine();
    return engine.submit(conversation(request, settings.parallelCalls()), sampling(settings, parameters),
        parameters.maxOutputTokens());
  }

  private static Request sampling(ChatModelSettings settings, ChatRequestParameters parameters) {
    Request made = settings.engine().request(parameters.temperature(), parameters.topP(), parameters.topK(), parameters.frequencyPenalty(),
        parameters.presencePenalty(), parameters.stopSequences());
    return settings.seed() == null ? made : made.randomSeed(false).seed(settings.seed());
  }

  private static Conversation conversation(ChatRequest request, boolean parallelCalls) {
    List<ToolSpecification> tools = request.toolSpecifications();
    return new Conversation(Json.toJson(request.messages().stream().map(Requests::message).toList()),
        tools.isEmpty() ? null : Json.toJson(tools.stream().map(Requests::tool).toList()),
        choice(request.toolChoice()), format(request.responseFormat()), keptTo(tools, parallelCalls));
  }

  private static Conversation.Calls keptTo(List<ToolSpecification> tools, boolean parallelCalls) {
    if (!parallelCalls) {
      return Conversation.Calls.SINGLE;
    }
    boolean isStrict = tools.stream().anyMatch(tool -> Boolean.TRUE.equals(tool.strict()));
    return isStrict ? Conversation.Calls.STRICT : Conversation.Calls.FREE;
  }

  private static String choice(ToolChoice choice) {
    return choice == null ? null : '"' + choice.name().toLowerCase(Locale.ROOT) + '"';
  }

  private static Map<String, Object> tool(ToolSpecification tool) {
    Object parameters = tool.parameters() == null ? object("type", "object", "properties", object())
        : JsonSchemaElementJsonUtils.toMap(tool.parameters());
    return object("type", "function", "function",
        object("name", tool.name(), "description", tool.description(), "parameters", parameters));
  }

  private static String format(ResponseFormat format) {
    if (format == null || format.type() == ResponseFormatType.TEXT) {
      return null;
    }
    JsonSchema schema = format.jsonSchema();
    return schema == null ? "{\"type\": \"json_object\"}"
        : Json.toJson(object("type", "json_schema", "json_schema",
            object("schema", closed(JsonSchemaElementJsonUtils.toMap(schema.rootElement())))));
  }

  /** Closes a schema that was derived from a class: such a schema lists all members but allows others. */
  private static Object closed(Object schema) {
    if (schema instanceof List<?> list) {
      return list.stream().map(Requests::closed).toList();
    }
    if (!(schema instanceof Map<?, ?> map)) {
      return schema;
    }
    Map<Object, Object> made = new LinkedHashMap<>();
    map.forEach((name, value) -> made.put(name, closed(value)));
    if ("object".equals(made.get("type")) && made.get("properties") instanceof Map<?, ?> named && !named.isEmpty()) {
      made.putIfAbsent("additionalProperties", false);
    }
    return made;
  }

  private static Map<String, Object> message(ChatMessage message) {
    if (message instanceof SystemMessage system) {
      return object("role", "system", "content", system.text());
    } else if (message instanceof UserMessage user) {
      return object("role", "user", "name", user.name(), "content", content(user.contents()));
    } else if (message instanceof AiMessage answer) {
      return answerMessage(answer);
    } else if (message instanceof ToolExecutionResultMessage result) {
      return object("role", "tool", "tool_call_id", result.id(), "name", result.toolName(),
          "content", content(result.contents()));
    } else if (message instanceof CustomMessage custom) {
      return custom.attributes();
    }
    throw new UnsupportedFeatureException("messages: a message of the type " + message.type() + " is not supported");
  }

  /** Returns a single text as a string, several as parts. */
  private static Object content(List<Content> contents) {
    List<String> texts = contents.stream().map(Requests::text).toList();
    return texts.size() == 1 ? texts.get(0) : texts.stream().map(text -> object("type", "text", "text", text)).toList();
  }

  private static String text(Content content) {
    if (content instanceof TextContent text) {
      return text.text();
    }
    throw new UnsupportedFeatureException("messages: content of the type " + content.type() + " is not supported; only text is");
  }

  private static Map<String, Object> answerMessage(AiMessage answer) {
    List<Map<String, Object>> calls = answer.toolExecutionRequests().stream().map(Requests::call).toList();
    return object("role", "assistant", "content", answer.text() == null ? "" : answer.text(),
        "reasoning_content", answer.thinking(), "tool_calls", calls.isEmpty() ? null : calls);
  }

  private static Map<String, Object> call(ToolExecutionRequest call) {
    String arguments = call.arguments() == null ? "{}" : call.arguments();
    return object("id", call.id(), "type", "function", "function", object("name", call.name(), "arguments", arguments));
  }
}
