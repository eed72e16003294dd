package dev.quire;

import java.util.ArrayList;
import java.util.List;
import java.util.UUID;

/** Collects the events of a job with a dialect: text, reasoning and calls. For one thread at a time. */
public final class Answer {
  /** A tool call: its index among the calls of the answer, and its arguments as JSON. */
  public record Call(int index, String id, String name, String arguments) {}

  private final StringBuilder text = new StringBuilder();
  private final StringBuilder reasoning = new StringBuilder();
  private final StringBuilder arguments = new StringBuilder();
  private final List<Call> calls = new ArrayList<>();
  private Call begun;
  private long reasoningTokens;
  private Event last;

  /** Creates an answer for a job whose events were not yet taken. */
  public Answer() {}

  /** Takes the next event of the job. */
  public void take(Event event) {
    switch (Require.nonNull(event, "event").responseKind()) {
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

  /**
   * Begins a call. Its id does not change: it is the model's own if that comes first, otherwise a new one.
   */
  private void begin(Event event) {
    String id = event.callId().isEmpty() ? "call_" + UUID.randomUUID().toString().replace("-", "") : event.callId();
    begun = new Call((int) event.callIndex(), id, event.callName(), "");
    arguments.setLength(0);
  }

  /** Returns the current call with the arguments so far; null before the first call. */
  public Call current() {
    return begun == null ? null : new Call(begun.index(), begun.id(), begun.name(), arguments.toString());
  }

  /** Returns the text so far. */
  public String text() {
    return text.toString();
  }

  /** Returns the reasoning so far. */
  public String reasoning() {
    return reasoning.toString();
  }

  /** Returns the complete calls, without one that was cut off. */
  public List<Call> calls() {
    return List.copyOf(calls);
  }

  /** Returns the number of reasoning tokens, without markers. */
  public long reasoningTokens() {
    return reasoningTokens;
  }

  /** Returns why the job ended; NONE before the end. */
  public FinishReason finishReason() {
    return last == null ? FinishReason.NONE : last.finishReason();
  }

  /** Returns the usage of the job; null before the end. */
  public Usage usage() {
    return last == null ? null : last.usage();
  }
}
