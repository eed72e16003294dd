package dev.quire;

/** Description of a job. Settings that are not set have their defaults. Not safe for concurrent use. */
public final class Request extends RequestSettings {
  private boolean hasQueue;

  /** Creates a request without a prompt: for a fork, or for a prompt made of parts. */
  public Request() {}

  /** Creates a request to continue this text. */
  public Request(String prompt) {
    promptText(prompt);
  }

  /** Creates a request to continue these tokens. */
  public Request(int[] prompt) {
    promptTokens(prompt);
  }

  boolean hasQueue() {
    return hasQueue;
  }

  /** Sets the queue that receives the events of the job. */
  public Request queue(EventQueue queue) {
    hasQueue = true;
    return set(request -> queue.with(value -> QuireNative.quire_job_request_set_queue(request, value)));
  }
}
