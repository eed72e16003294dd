import dev.quire.ChatEngine;
import dev.quire.Conversation;
import dev.quire.Event;
import dev.quire.Job;

/** Prints an answer while it is generated. The argument is the directory of a model. */
public final class StreamedChat {
  private StreamedChat() {}

  public static void main(String[] arguments) {
    String messages = """
        [{"role": "system", "content": "Answer in one sentence."},
         {"role": "user", "content": "Who was the king?"}]""";
    try (ChatEngine engine = ChatEngine.load(arguments[0]);
        Job job = engine.submit(Conversation.of(messages), engine.request(), 60)) {
      for (Event event : job) {
        System.out.print(event.responseText());
        System.out.flush();
        if (event.isLast()) {
          System.out.println("\n" + event.finishReason() + ", " + event.usage().newTokens() + " tokens");
        }
      }
    }
  }
}
