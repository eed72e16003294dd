package dev.quire;

import java.time.Duration;

/** What a job does. Untouched settings have their defaults. Not for several threads at once. */
public final class Request extends Settings<Request> {
  /** What a job does. */
  public enum Kind {
    GENERATE(QuireNativeConstants.QUIRE_JOB_KIND_GENERATE),
    /** Computes how likely the prompt is: {@link Job#scores}. */
    SCORE(QuireNativeConstants.QUIRE_JOB_KIND_SCORE),
    /** Computes the prompt, so that later jobs find it in the cache. */
    WARM(QuireNativeConstants.QUIRE_JOB_KIND_WARM),
    /** Makes one vector of the prompt: {@link Job#embedding}. */
    EMBED(QuireNativeConstants.QUIRE_JOB_KIND_EMBED);

    private final int value;

    Kind(int value) {
      this.value = value;
    }
  }

  /** How an embedding is made of the states of a prompt. */
  public enum Pooling {
    MEAN(QuireNativeConstants.QUIRE_POOLING_MEAN),
    LAST(QuireNativeConstants.QUIRE_POOLING_LAST);

    private final int value;

    Pooling(int value) {
      this.value = value;
    }
  }

  /** What happens to the events of a job when nobody takes them. */
  public enum EventPolicy {
    /** Text grows together into one event. */
    COALESCE(QuireNativeConstants.QUIRE_EVENTS_COALESCE),
    /** The job pauses until events are taken. */
    PAUSE(QuireNativeConstants.QUIRE_EVENTS_PAUSE),
    /** The job ends with QUIRE_ERROR_CAPACITY. */
    END(QuireNativeConstants.QUIRE_EVENTS_END);

    private final int value;

    EventPolicy(int value) {
      this.value = value;
    }
  }

  private boolean hasQueue;

  boolean hasQueue() {
    return hasQueue;
  }

  /** A request without a prompt: for a fork. */
  public Request() {
    super(QuireNative::quire_job_request_create, QuireNative::quire_job_request_free);
  }

  /** A request to go on after this text. */
  public Request(String prompt) {
    this();
    setText(prompt, (text, request) -> QuireNative.quire_job_request_set_prompt_text(request, text));
  }

  /** A request to go on after these tokens. */
  public Request(int[] prompt) {
    this();
    int[] tokens = prompt.clone();
    set(request -> QuireNative.quire_job_request_set_prompt_tokens(request, tokens));
  }

  /** Default: GENERATE. */
  public Request kind(Kind kind) {
    return set(request -> QuireNative.quire_job_request_set_kind(request, kind.value));
  }

  /** Adds the tokens that the model's tokenizer puts around a text. Default: true. */
  public Request addSpecial(boolean add) {
    return set(request -> QuireNative.quire_job_request_set_add_special(request, asInt(add)));
  }

  /** Reads the text of special tokens in the prompt as those tokens: for templates. */
  public Request parseSpecial(boolean parse) {
    return set(request -> QuireNative.quire_job_request_set_parse_special(request, asInt(parse)));
  }

  /** Tokens to generate at most. */
  public Request maxNewTokens(int tokens) {
    return set(request -> QuireNative.quire_job_request_set_max_new_tokens(request, tokens));
  }

  /** Tokens before which no stop token is drawn. */
  public Request minNewTokens(int tokens) {
    return set(request -> QuireNative.quire_job_request_set_min_new_tokens(request, tokens));
  }

  /** Tokens that end the job beside the model's own, and are no part of its result. */
  public Request stopTokens(int... tokens) {
    int[] ids = tokens.clone();
    return set(request -> QuireNative.quire_job_request_set_stop_tokens(request, ids));
  }

  /** One more text that ends the job and is no part of its result. */
  public Request stopText(String text) {
    return setText(text, (bytes, request) -> QuireNative.quire_job_request_add_stop_text(request, bytes));
  }

  /** The end-of-sequence tokens of the model do not end the job. */
  public Request ignoreEos(boolean ignore) {
    return set(request -> QuireNative.quire_job_request_set_ignore_eos(request, asInt(ignore)));
  }

  /** Same seed, same prompt, same settings: same tokens. */
  public Request seed(long seed) {
    return set(request -> QuireNative.quire_job_request_set_seed(request, seed));
  }

  /** Once per distinct token in range: a positive logit is divided by it, any other multiplied. */
  public Request repetitionPenalty(double penalty) {
    return set(request -> QuireNative.quire_job_request_set_repetition_penalty(request, penalty));
  }

  /** Taken off a token's logit once per occurrence in range. */
  public Request frequencyPenalty(double penalty) {
    return set(request -> QuireNative.quire_job_request_set_frequency_penalty(request, penalty));
  }

  /** Taken off a token's logit once where it occurs in range. */
  public Request presencePenalty(double penalty) {
    return set(request -> QuireNative.quire_job_request_set_presence_penalty(request, penalty));
  }

  /** The range of the three: the last tokens, prompt included; -1, the default, is all of them. */
  public Request penaltyRange(int tokens) {
    return set(request -> QuireNative.quire_job_request_set_penalty_range(request, tokens));
  }

  /** Over how many older tokens the penalties fade to nothing. */
  public Request penaltyDecay(int tokens) {
    return set(request -> QuireNative.quire_job_request_set_penalty_decay(request, tokens));
  }

  /** Added to the logit of one token. */
  public Request logitBias(int token, double bias) {
    return set(request -> QuireNative.quire_job_request_add_logit_bias(request, token, bias));
  }

  /** Tokens that are never drawn. */
  public Request bannedTokens(int... tokens) {
    int[] ids = tokens.clone();
    return set(request -> QuireNative.quire_job_request_set_banned_tokens(request, ids));
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

  /** Keeps tokens at least this share as likely as the likeliest. */
  public Request minP(double share) {
    return set(request -> QuireNative.quire_job_request_set_min_p(request, share));
  }

  /** The text of special tokens is part of the text. */
  public Request emitSpecial(boolean emit) {
    return set(request -> QuireNative.quire_job_request_set_emit_special(request, asInt(emit)));
  }

  /** Events carry the log-probability of each token. */
  public Request logProbs(boolean carry) {
    return set(request -> QuireNative.quire_job_request_set_log_probs(request, asInt(carry)));
  }

  /** How many of the likeliest tokens events carry beside each token. */
  public Request topLogProbs(int tokens) {
    return set(request -> QuireNative.quire_job_request_set_top_log_probs(request, tokens));
  }

  /** A SCORE job keeps all logits for {@link Job#rawLogits}. */
  public Request rawLogits(boolean keep) {
    return set(request -> QuireNative.quire_job_request_set_raw_logits(request, asInt(keep)));
  }

  /** Default: MEAN. */
  public Request pooling(Pooling pooling) {
    return set(request -> QuireNative.quire_job_request_set_pooling(request, pooling.value));
  }

  /** The vector of an EMBED job has length 1. Default: true. */
  public Request normalize(boolean normalize) {
    return set(request -> QuireNative.quire_job_request_set_normalize(request, asInt(normalize)));
  }

  /** Any number; every event of the job carries it. */
  public Request userData(long number) {
    return set(request -> QuireNative.quire_job_request_set_user_data(request, number));
  }

  /** Events of the job come to this queue. */
  public Request queue(EventQueue queue) {
    hasQueue = true;
    return set(request -> queue.with(value -> QuireNative.quire_job_request_set_queue(request, value)));
  }

  /** Default: COALESCE. */
  public Request eventPolicy(EventPolicy policy) {
    return set(request -> QuireNative.quire_job_request_set_event_policy(request, policy.value));
  }

  /** Events that may wait before the policy acts. Default: 64. */
  public Request maxUnreadEvents(int events) {
    return set(request -> QuireNative.quire_job_request_set_max_unread_events(request, events));
  }

  /** Events tell how far the prompt is. */
  public Request progressEvents(boolean tell) {
    return set(request -> QuireNative.quire_job_request_set_progress_events(request, asInt(tell)));
  }

  /** Such as a tenant: jobs share cached prefixes, and quotas count, within it. */
  public Request namespace(String name) {
    return setText(name, (bytes, request) -> QuireNative.quire_job_request_set_namespace(request, bytes));
  }

  /** Larger goes first; -1000 to 1000. */
  public Request priority(int priority) {
    return set(request -> QuireNative.quire_job_request_set_priority(request, priority));
  }

  /** After submit, by which work on the job must have begun; zero is none, here and below. */
  public Request queueDeadline(Duration deadline) {
    return setTime(deadline, QuireNative::quire_job_request_set_queue_deadline_ns);
  }

  /** By which the first token must be there. */
  public Request firstTokenDeadline(Duration deadline) {
    return setTime(deadline, QuireNative::quire_job_request_set_first_token_deadline_ns);
  }

  /** By which the job must be over. */
  public Request deadline(Duration deadline) {
    return setTime(deadline, QuireNative::quire_job_request_set_deadline_ns);
  }

  /** Room for all of the job is taken at once, so that it never has to give it to others. */
  public Request reserveWhole(boolean reserve) {
    return set(request -> QuireNative.quire_job_request_set_reserve_whole(request, asInt(reserve)));
  }

  /** The job starts from what the cache has of its prompt. Default: true. */
  public Request reusePrefix(boolean reuse) {
    return set(request -> QuireNative.quire_job_request_set_reuse_prefix(request, asInt(reuse)));
  }

  /** Later jobs may start from what this one computed. Default: true. */
  public Request publishPages(boolean publish) {
    return set(request -> QuireNative.quire_job_request_set_publish_pages(request, asInt(publish)));
  }
}
