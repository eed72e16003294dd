import dev.quire.ChatEngine;
import dev.quire.Conversation;
import dev.quire.Event;
import dev.quire.Job;
import java.util.concurrent.CompletableFuture;

/** Ends a long answer after its first tokens. The argument is the directory of a model. */
public final class Cancellation {
  private Cancellation() {}

  public static void main(String[] arguments) {
    String messages = "[{\"role\": \"user\", \"content\": \"Tell me a long story.\"}]";
    int events = 0;
    try (ChatEngine engine = ChatEngine.load(arguments[0]);
        Job job = engine.submit(Conversation.of(messages), engine.request().ignoreEos(true), null)) {
      for (Event event : job) {
        System.out.print(event.responseText());
        if (++events == 8) {
          CompletableFuture.runAsync(job::cancel); // from any thread; the job ends within a step
        }
        if (event.isLast()) {
          System.out.println("\n" + event.finishReason());
        }
      }
    }
  }
}
