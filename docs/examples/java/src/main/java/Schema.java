import dev.quire.Answer;
import dev.quire.ChatEngine;
import dev.quire.Conversation;
import dev.quire.Job;

/** Gets an answer that matches a JSON schema. The argument is the directory of a model. */
public final class Schema {
  private static final String FORMAT = """
      {"type": "json_schema", "json_schema": {"schema": {"type": "object",
        "properties": {"city": {"enum": ["Oslo", "Rome"]},
          "degrees": {"type": "integer", "minimum": -40, "maximum": 50}},
        "required": ["city", "degrees"], "additionalProperties": false}}}""";

  private Schema() {}

  public static void main(String[] arguments) {
    String messages = "[{\"role\": \"user\", \"content\": \"How warm is it in Rome?\"}]";
    Conversation asked = new Conversation(messages, null, null, FORMAT, Conversation.Calls.FREE);
    Answer answer = new Answer();
    try (ChatEngine engine = ChatEngine.load(arguments[0]);
        Job job = engine.submit(asked, engine.request(), 100)) {
      job.forEach(answer::take);
    }
    System.out.println(answer.text()); // complete: the constraint ends the answer
  }
}
