package dev.quire;

import java.util.ArrayList;
import java.util.List;
import java.util.UUID;

/** What the events of a job with a dialect come to: text, reasoning and calls. For one thread at a time. */
public final class Answer {
  /** A call of a tool: its place among the calls of the answer, and its arguments as JSON. */
  public record Call(int index, String id, String name, String arguments) {}

  private final StringBuilder text = new StringBuilder();
  private final StringBuilder reasoning = new StringBuilder();
  private final StringBuilder arguments = new StringBuilder();
  private final List<Call> calls = new ArrayList<>();
  private Call begun;
  private long reasoningTokens;
  private Event last;

  /** Of a job whose events are all to come. */
  public Answer() {}

  /** Takes the next event of the job. */
  public void take(Event event) {
    switch (event.responseKind()) {
      case TEXT -> text.append(event.responseText());
      case REASONING -> {
        reasoning.append(event.responseText());
        reasoningTokens += event.tokens().length;
      }
      case CALL_BEGIN -> begin(event);
      case ARGUMENTS -> arguments.append(event.responseText());
      case CALL_END -> calls.add(current());
      default -> { }
    }
    if (event.isLast()) {
      last = event;
    }
  }

  /** A call has one id from its beginning on: the model's own where it comes first, or one that is made here. */
  private void begin(Event event) {
    String id = event.callId().isEmpty() ? "call_" + UUID.randomUUID().toString().replace("-", "") : event.callId();
    begun = new Call((int) event.callIndex(), id, event.callName(), "");
    arguments.setLength(0);
  }

  /** The call that events of calls are of, with the arguments that have come; null before the first. */
  public Call current() {
    return begun == null ? null : new Call(begun.index(), begun.id(), begun.name(), arguments.toString());
  }

  public String text() {
    return text.toString();
  }

  public String reasoning() {
    return reasoning.toString();
  }

  /** The calls that are whole: one that was cut off is none. */
  public List<Call> calls() {
    return List.copyOf(calls);
  }

  /** Tokens of the reasoning, its marks left out. */
  public long reasoningTokens() {
    return reasoningTokens;
  }

  /** Why the job ended; NONE before that. */
  public FinishReason finishReason() {
    return last == null ? FinishReason.NONE : last.finishReason();
  }

  /** What the job took; null before its end. */
  public Usage usage() {
    return last == null ? null : last.usage();
  }
}
