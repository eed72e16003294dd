import dev.quire.Answer;
import dev.quire.ChatEngine;
import dev.quire.Conversation;
import dev.quire.Job;

/** Lets the model call a tool, and answer with its result. The argument is the directory of a model. */
public final class ToolCall {
  private static final String TOOLS = """
      [{"type": "function", "function": {"name": "temperature", "parameters": {"type": "object",
        "properties": {"city": {"enum": ["Oslo", "Rome"]}}, "required": ["city"]}}}]""";
  private static final String QUESTION = "{\"role\": \"user\", \"content\": \"How warm is it in Rome?\"}";

  private ToolCall() {}

  public static void main(String[] arguments) {
    try (ChatEngine engine = ChatEngine.load(arguments[0]).dialect("hermes")) {
      // "required": the model calls a tool; SINGLE: one call, which matches the schema.
      Answer.Call call = answer(engine, "[" + QUESTION + "]", "\"required\"").calls().get(0);
      System.out.println(call.name() + " " + call.arguments());
      int degrees = call.arguments().contains("Rome") ? 21 : -4; // here the program runs its tool
      String asked = """
          {"role": "assistant", "content": "", "tool_calls": [{"id": "%s", "type": "function",
            "function": {"name": "%s", "arguments": %s}}]}""".formatted(call.id(), call.name(), call.arguments());
      String told = "{\"role\": \"tool\", \"tool_call_id\": \"%s\", \"content\": \"%d\"}".formatted(call.id(), degrees);
      String history = "[" + QUESTION + ", " + asked + ", " + told + "]";
      System.out.println(answer(engine, history, "\"none\"").text());
    }
  }

  private static Answer answer(ChatEngine engine, String messages, String choice) {
    Conversation conversation = new Conversation(messages, TOOLS, choice, null, Conversation.Calls.SINGLE);
    Answer answer = new Answer();
    try (Job job = engine.submit(conversation, engine.request(), 100)) {
      job.forEach(answer::take);
    }
    return answer;
  }
}
