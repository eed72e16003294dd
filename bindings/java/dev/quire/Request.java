package dev.quire;

import java.util.ArrayList;
import java.util.List;
import java.util.function.LongConsumer;

/** What a job generates. Untouched settings have their defaults. Not for several threads at once. */
public final class Request {
  private final List<LongConsumer> setters = new ArrayList<>();

  /** A request to go on after this text. */
  public Request(String prompt) {
    byte[] text = Utf8.bytes(prompt);
    setters.add(request -> QuireNative.quire_job_request_set_prompt_text(request, text));
  }

  /** A request to go on after these tokens. */
  public Request(int[] prompt) {
    int[] tokens = prompt.clone();
    setters.add(request -> QuireNative.quire_job_request_set_prompt_tokens(request, tokens));
  }

  private Request set(LongConsumer setter) {
    setters.add(setter);
    return this;
  }

  /** Reads the text of special tokens in the prompt as those tokens: for templates. */
  public Request parseSpecial(boolean parse) {
    return set(request -> QuireNative.quire_job_request_set_parse_special(request, parse ? 1 : 0));
  }

  /** Tokens to generate at most. */
  public Request maxNewTokens(int tokens) {
    return set(request -> QuireNative.quire_job_request_set_max_new_tokens(request, tokens));
  }

  /** Divides the logits; 0 takes the likeliest token always. */
  public Request temperature(double temperature) {
    return set(request -> QuireNative.quire_job_request_set_temperature(request, temperature));
  }

  /** Keeps the k likeliest tokens. */
  public Request topK(int k) {
    return set(request -> QuireNative.quire_job_request_set_top_k(request, k));
  }

  /** Keeps the fewest tokens that together have this probability. */
  public Request topP(double probability) {
    return set(request -> QuireNative.quire_job_request_set_top_p(request, probability));
  }

  /** Same seed, same prompt, same settings: same tokens. */
  public Request seed(long seed) {
    return set(request -> QuireNative.quire_job_request_set_seed(request, seed));
  }

  /** One more text that ends the job and is no part of its result. */
  public Request stopText(String text) {
    byte[] bytes = Utf8.bytes(text);
    return set(request -> QuireNative.quire_job_request_add_stop_text(request, bytes));
  }

  /** A native request, owned by the caller. */
  long toNative() {
    long request = QuireNative.quire_job_request_create();
    try {
      setters.forEach(setter -> setter.accept(request));
      return request;
    } catch (RuntimeException refused) {
      QuireNative.quire_job_request_free(request);
      throw refused;
    }
  }
}
