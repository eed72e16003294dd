// Drives a server with langchain4j's OpenAI models. usage: java -cp JARS/* Langchain4jClient.java BASE_URL

import dev.langchain4j.agent.tool.ToolExecutionRequest;
import dev.langchain4j.agent.tool.ToolSpecification;
import dev.langchain4j.data.message.ToolExecutionResultMessage;
import dev.langchain4j.data.message.UserMessage;
import dev.langchain4j.exception.ModelNotFoundException;
import dev.langchain4j.model.chat.request.ChatRequest;
import dev.langchain4j.model.chat.request.ResponseFormat;
import dev.langchain4j.model.chat.request.ResponseFormatType;
import dev.langchain4j.model.chat.request.ToolChoice;
import dev.langchain4j.model.chat.request.json.JsonEnumSchema;
import dev.langchain4j.model.chat.request.json.JsonObjectSchema;
import dev.langchain4j.model.chat.request.json.JsonSchema;
import dev.langchain4j.model.chat.response.ChatResponse;
import dev.langchain4j.model.chat.response.StreamingChatResponseHandler;
import dev.langchain4j.model.openai.OpenAiChatModel;
import dev.langchain4j.model.openai.OpenAiEmbeddingModel;
import dev.langchain4j.model.openai.OpenAiStreamingChatModel;
import dev.langchain4j.model.output.FinishReason;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

public class Langchain4jClient {
  private static final JsonObjectSchema CITY =
      JsonObjectSchema.builder()
          .addProperty("city", JsonEnumSchema.builder().enumValues("Oslo", "Rome").build())
          .required("city")
          .additionalProperties(false)
          .build();

  private final String url;

  private Langchain4jClient(String base) {
    url = base + "/v1";
  }

  private OpenAiChatModel model(String name) {
    return OpenAiChatModel.builder().baseUrl(url).apiKey("k").modelName(name).temperature(0.0).maxTokens(400).maxRetries(0)
        .parallelToolCalls(false).strictTools(true).strictJsonSchema(true).build();
  }

  private static void expect(boolean holds, Object about) {
    if (!holds) throw new AssertionError(String.format("%.500s", about));
  }

  /** Returns the result of a stream. Checks that the pieces before it join to its text. */
  private ChatResponse stream(String name, ChatRequest request) throws Exception {
    CompletableFuture<ChatResponse> over = new CompletableFuture<>();
    StringBuilder pieces = new StringBuilder();
    OpenAiStreamingChatModel.builder().baseUrl(url).apiKey("k").modelName(name).temperature(0.0).maxTokens(400)
        .parallelToolCalls(false).strictTools(true).build().chat(request, new StreamingChatResponseHandler() {
          @Override
          public void onPartialResponse(String piece) {
            pieces.append(piece);
          }

          @Override
          public void onCompleteResponse(ChatResponse response) {
            over.complete(response);
          }

          @Override
          public void onError(Throwable failure) {
            over.completeExceptionally(failure);
          }
        });
    ChatResponse response = over.get(120, TimeUnit.SECONDS);
    String text = response.aiMessage().text();
    expect(pieces.toString().equals(text == null ? "" : text), response);
    return response;
  }

  private void texts() throws Exception {
    ChatRequest request = ChatRequest.builder().messages(UserMessage.from("Tell me of a king.")).maxOutputTokens(24).build();
    ChatResponse whole = model("m").chat(request);
    expect(whole.tokenUsage().outputTokenCount() <= 24 && !whole.aiMessage().text().isEmpty(), whole);
    expect(stream("m", request).aiMessage().text().equals(whole.aiMessage().text()), whole);
    float[] vector = OpenAiEmbeddingModel.builder().baseUrl(url).apiKey("k").modelName("m").build().embed("a king").content()
        .vector();
    expect(vector.length > 0, vector);
  }

  private static ToolExecutionRequest onlyCall(ChatResponse response) {
    expect(response.finishReason() == FinishReason.TOOL_EXECUTION, response);
    List<ToolExecutionRequest> calls = response.aiMessage().toolExecutionRequests();
    expect(calls.size() == 1 && calls.get(0).name().equals("weather") && calls.get(0).arguments().contains("city"), calls);
    return calls.get(0);
  }

  private void calls() throws Exception {
    ToolSpecification tool = ToolSpecification.builder().name("weather").parameters(CITY).build();
    UserMessage question = UserMessage.from("How warm is it?");
    ChatRequest request =
        ChatRequest.builder().messages(question).toolSpecifications(tool).toolChoice(ToolChoice.REQUIRED).build();
    ChatResponse whole = model("calls").chat(request);
    ToolExecutionRequest call = onlyCall(whole);
    expect(onlyCall(stream("calls", request)).arguments().equals(call.arguments()), call);
    ChatRequest next = ChatRequest.builder()
        .messages(question, whole.aiMessage(), ToolExecutionResultMessage.from(call, "warm")).maxOutputTokens(8).build();
    expect(model("calls").chat(next).tokenUsage().outputTokenCount() <= 8, next);
    ResponseFormat format = ResponseFormat.builder().type(ResponseFormatType.JSON)
        .jsonSchema(JsonSchema.builder().name("place").rootElement(CITY).build()).build();
    String place = model("m").chat(ChatRequest.builder().messages(question).responseFormat(format).build()).aiMessage().text();
    expect(place.contains("\"city\"") && (place.contains("Oslo") || place.contains("Rome")), place);
  }

  private void failures() {
    try {
      model("nobody").chat("hello");
    } catch (ModelNotFoundException expected) {
      return;
    }
    throw new AssertionError("an unknown model was found");
  }

  public static void main(String[] args) throws Exception {
    Langchain4jClient client = new Langchain4jClient(args[0]);
    client.texts();
    client.calls();
    client.failures();
    System.out.println("texts, calls, failures passed");
    System.exit(0); // otherwise langchain4j's threads would keep the program alive
  }
}
