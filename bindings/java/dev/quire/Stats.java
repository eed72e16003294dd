package dev.quire;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;

/**
 * The figures of a cache at one moment, consistent with each other.
 *
 * @param pagesPinned of those referenced
 * @param jobsFailed of those finished, as jobsCancelled
 * @param histograms one for each QUIRE_HISTOGRAM_* of {@link QuireNativeConstants}, which is its place
 * @param namespaces the figures of each of the first 64 by name; empty in one of these
 */
public record Stats(long pageTokens, long pagesTotal, long pagesFree, long pagesCached, long pagesReferenced,
    long pagesPinned, long pagesEvicted, long pagesDeduplicated, long jobsQueued, long jobsRunning,
    long jobsSubmitted, long jobsFinished, long jobsFailed, long jobsCancelled, long preemptions, long steps,
    long promptTokens, long cachedTokens, long newTokens, long draftTokens, long acceptedDraftTokens,
    long deviceBytes, List<Histogram> histograms, Map<String, Stats> namespaces) {
  /** The sizes of what was counted; times in nanoseconds. A quantile is at most twice too high. */
  public record Histogram(long count, double sum, double p50, double p90, double p99) {
    private static Histogram of(long stats, int kind) {
      return new Histogram(QuireNative.quire_stats_histogram_count(stats, kind),
          QuireNative.quire_stats_histogram_sum(stats, kind),
          QuireNative.quire_stats_histogram_quantile(stats, kind, 0.5),
          QuireNative.quire_stats_histogram_quantile(stats, kind, 0.9),
          QuireNative.quire_stats_histogram_quantile(stats, kind, 0.99));
    }
  }

  /** Copies a native snapshot and frees it. */
  static Stats take(long stats) {
    try {
      return new Stats(QuireNative.quire_stats_page_tokens(stats), QuireNative.quire_stats_pages_total(stats),
          QuireNative.quire_stats_pages_free(stats), QuireNative.quire_stats_pages_cached(stats),
          QuireNative.quire_stats_pages_referenced(stats), QuireNative.quire_stats_pages_pinned(stats),
          QuireNative.quire_stats_pages_evicted(stats), QuireNative.quire_stats_pages_deduplicated(stats),
          QuireNative.quire_stats_jobs_queued(stats), QuireNative.quire_stats_jobs_running(stats),
          QuireNative.quire_stats_jobs_submitted(stats), QuireNative.quire_stats_jobs_finished(stats),
          QuireNative.quire_stats_jobs_failed(stats), QuireNative.quire_stats_jobs_cancelled(stats),
          QuireNative.quire_stats_preemptions(stats), QuireNative.quire_stats_steps(stats),
          QuireNative.quire_stats_prompt_tokens(stats), QuireNative.quire_stats_cached_tokens(stats),
          QuireNative.quire_stats_new_tokens(stats), QuireNative.quire_stats_draft_tokens(stats),
          QuireNative.quire_stats_accepted_draft_tokens(stats), QuireNative.quire_stats_device_bytes(stats),
          IntStream.rangeClosed(QuireNativeConstants.QUIRE_HISTOGRAM_TIME_QUEUED,
              QuireNativeConstants.QUIRE_HISTOGRAM_STEP_TOKENS).mapToObj(kind -> Histogram.of(stats, kind)).toList(),
          namespacesOf(stats));
    } finally {
      QuireNative.quire_stats_free(stats);
    }
  }

  private static Map<String, Stats> namespacesOf(long stats) {
    Map<String, Stats> namespaces = new LinkedHashMap<>();
    long count = QuireNative.quire_stats_num_namespaces(stats);
    for (int i = 0; i < count; i++) {
      int namespace = i;
      String name = Results.text(out -> QuireNative.quire_stats_namespace_name(stats, namespace, out));
      namespaces.put(name, take(QuireNative.quire_stats_namespace(stats, namespace)));
    }
    return namespaces;
  }
}
