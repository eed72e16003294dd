package dev.quire;

/** What a job does. Untouched settings have their defaults. Not for several threads at once. */
public final class Request extends RequestSettings {
  private boolean hasQueue;

  /** A request without a prompt: for a fork, or one whose prompt is made of parts. */
  public Request() {}

  /** A request to go on after this text. */
  public Request(String prompt) {
    promptText(prompt);
  }

  /** A request to go on after these tokens. */
  public Request(int[] prompt) {
    promptTokens(prompt);
  }

  boolean hasQueue() {
    return hasQueue;
  }

  /** Events of the job come to this queue. */
  public Request queue(EventQueue queue) {
    hasQueue = true;
    return set(request -> queue.with(value -> QuireNative.quire_job_request_set_queue(request, value)));
  }
}
