import dev.quire.Answer;
import dev.quire.CacheOptions;
import dev.quire.ChatEngine;
import dev.quire.Conversation;
import dev.quire.Job;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.IntStream;

/** Serves many clients from one engine, which computes their tokens together. The argument is a model's directory. */
public final class ManyClients {
  private static final int CLIENTS = 16;

  private ManyClients() {}

  public static void main(String[] arguments) throws Exception {
    ExecutorService threads = Executors.newFixedThreadPool(CLIENTS); // from JDK 21 on: newVirtualThreadPerTaskExecutor
    try (ChatEngine engine = ChatEngine.load(arguments[0], null, new CacheOptions().maxTokens(CLIENTS * 256))) {
      List<Future<Long>> clients = IntStream.range(0, CLIENTS)
          .mapToObj(client -> threads.submit(() -> tokens(engine, client))).toList();
      long tokens = 0;
      for (Future<Long> client : clients) tokens += client.get();
      System.out.println(CLIENTS + " answers, " + tokens + " tokens");
    } finally {
      threads.shutdown();
    }
  }

  private static long tokens(ChatEngine engine, int client) {
    String messages = "[{\"role\": \"user\", \"content\": \"Tell me of king number %d.\"}]".formatted(client);
    Answer answer = new Answer();
    try (Job job = engine.submit(Conversation.of(messages), engine.request(), 32)) {
      job.forEach(answer::take);
    }
    return answer.usage().newTokens();
  }
}
