package dev.quire;

/** Description of a job. Settings that are not set have their defaults. Not safe for concurrent use. */
public final class Request extends RequestSettings {
  private boolean hasQueue;

  /** Creates a request without a prompt: for a fork, or for a prompt made of parts. */
  public Request() {}

  /** Creates a request to continue this text. */
  public Request(String prompt) {
    promptText(Require.nonNull(prompt, "prompt"));
  }

  /** Creates a request to continue these tokens. */
  public Request(int[] prompt) {
    promptTokens(Require.nonNull(prompt, "prompt"));
  }

  /** Sets the maximum number of tokens that applies if the request sets none. */
  void defaultMaxNewTokens(int maxNewTokens) {
    setFirst(request -> QuireNative.quire_job_request_set_max_new_tokens(request, maxNewTokens));
  }

  boolean hasQueue() {
    return hasQueue;
  }

  /** Sets the queue that receives the events of the job; with null, the default, they are taken from the job. */
  public Request queue(EventQueue queue) {
    hasQueue = queue != null;
    return set(request -> NativeHandle.withOrNone(queue, value -> QuireNative.quire_job_request_set_queue(request, value)));
  }
}
