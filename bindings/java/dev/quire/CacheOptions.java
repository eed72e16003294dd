package dev.quire;

import java.time.Duration;

/** Settings of a {@link Cache}. Untouched ones have their defaults. Not for several threads at once. */
public final class CacheOptions extends Settings<CacheOptions> {
  /** How keys and values are stored. */
  public enum KvFormat {
    F16(QuireNativeConstants.QUIRE_KV_F16),
    Q8(QuireNativeConstants.QUIRE_KV_Q8),
    Q6(QuireNativeConstants.QUIRE_KV_Q6),
    Q4(QuireNativeConstants.QUIRE_KV_Q4),
    FP8(QuireNativeConstants.QUIRE_KV_FP8);

    private final int value;

    KvFormat(int value) {
      this.value = value;
    }
  }

  /** What the jobs of one namespace may take of a cache. */
  public enum Quota {
    /** Jobs that run at the same time; others of the namespace wait. */
    RUNNING_JOBS(QuireNativeConstants.QUIRE_QUOTA_RUNNING_JOBS),
    /** Jobs that wait; one more is refused with QUIRE_ERROR_QUOTA. */
    QUEUED_JOBS(QuireNativeConstants.QUIRE_QUOTA_QUEUED_JOBS),
    /** Pages that its jobs hold, a shared one once for each. */
    PAGES(QuireNativeConstants.QUIRE_QUOTA_PAGES),
    /** Pages that {@link Cache#pin} keeps for it. */
    PINNED_PAGES(QuireNativeConstants.QUIRE_QUOTA_PINNED_PAGES);

    private final int value;

    Quota(int value) {
      this.value = value;
    }
  }

  public CacheOptions() {
    super(QuireNative::quire_cache_options_create, QuireNative::quire_cache_options_free);
  }

  /** Tokens that all jobs together can hold; 0 is room for one job of full length. */
  public CacheOptions maxTokens(long tokens) {
    return set(options -> QuireNative.quire_cache_options_set_max_tokens(options, tokens));
  }

  /** Tokens of a page. Prompts that share whole pages share their work. Default: 256. */
  public CacheOptions pageTokens(int tokens) {
    return set(options -> QuireNative.quire_cache_options_set_page_tokens(options, tokens));
  }

  /** Jobs that run at the same time; others wait. Default: 64. */
  public CacheOptions maxBatchSize(int jobs) {
    return set(options -> QuireNative.quire_cache_options_set_max_batch_size(options, jobs));
  }

  /** Tokens of one step: larger is faster for prompts and slower to answer others. Default: 512. */
  public CacheOptions maxChunkTokens(int tokens) {
    return set(options -> QuireNative.quire_cache_options_set_max_chunk_tokens(options, tokens));
  }

  /** Tokens of one job, prompt and generated ones together; 0 is what the model was made for. */
  public CacheOptions maxSeqLen(long tokens) {
    return set(options -> QuireNative.quire_cache_options_set_max_seq_len(options, tokens));
  }

  /** Jobs that may wait; one more is refused with QUIRE_ERROR_CAPACITY. Default: 1024. */
  public CacheOptions maxQueue(int jobs) {
    return set(options -> QuireNative.quire_cache_options_set_max_queue(options, jobs));
  }

  /** Default: F16. */
  public CacheOptions kvFormat(KvFormat format) {
    return set(options -> QuireNative.quire_cache_options_set_kv_format(options, format.value));
  }

  /** A quota of every namespace that has none of its own; 0 is no limit. */
  public CacheOptions quota(Quota quota, int limit) {
    return set(options -> QuireNative.quire_cache_options_set_quota(options, quota.value, limit));
  }

  /** A quota of one namespace, in place of that of all; 0 is no limit. */
  public CacheOptions namespaceQuota(String namespace, Quota quota, int limit) {
    return setText(namespace, (name, options) ->
        QuireNative.quire_cache_options_set_namespace_quota(options, name, quota.value, limit));
  }

  /** Its share where several namespaces have jobs that wait: twice the weight is twice the tokens. Default: 1. */
  public CacheOptions namespaceWeight(String namespace, double weight) {
    return setText(namespace, (name, options) ->
        QuireNative.quire_cache_options_set_namespace_weight(options, name, weight));
  }

  /** Pages that pins keep for all namespaces together; 0 is a quarter of the cache. */
  public CacheOptions maxPinnedPages(int pages) {
    return set(options -> QuireNative.quire_cache_options_set_max_pinned_pages(options, pages));
  }

  /** How often later jobs may begin before one for which there is no room yet. Default: 16. */
  public CacheOptions maxOvertakes(int times) {
    return set(options -> QuireNative.quire_cache_options_set_max_overtakes(options, times));
  }

  /** Waiting that is worth one priority; zero is never. Default: ten seconds. */
  public CacheOptions ageing(Duration perPriority) {
    return setTime(perPriority, QuireNative::quire_cache_options_set_ageing_ns);
  }

  /** How long a step may take before its device counts as lost; zero, the default, is for ever. */
  public CacheOptions stepTimeout(Duration timeout) {
    return setTime(timeout, QuireNative::quire_cache_options_set_step_timeout_ns);
  }

  /** How long {@link Cache#shutdown} waits for a device that hangs. Default: two seconds. */
  public CacheOptions closeTimeout(Duration timeout) {
    return setTime(timeout, QuireNative::quire_cache_options_set_close_timeout_ns);
  }
}
