package dev.quire.springai;

import dev.quire.ChatEngine;
import dev.quire.QuireException;
import dev.quire.Stats;
import io.micrometer.core.instrument.FunctionCounter;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Tag;
import io.micrometer.core.instrument.binder.MeterBinder;
import java.util.List;
import java.util.Objects;
import java.util.function.ToDoubleFunction;

/** Micrometer's meters of an engine: jobs, tokens and pages of its cache. Each reading takes the statistics anew. */
public final class QuireMetrics implements MeterBinder {
  private final ChatEngine engine;
  private final Iterable<Tag> tags;

  /** Creates the meters of an engine, with further tags of all of them. The caller owns the engine. */
  public QuireMetrics(ChatEngine engine, Iterable<Tag> tags) {
    this.engine = Objects.requireNonNull(engine, "engine");
    this.tags = Objects.requireNonNull(tags, "tags");
  }

  /** Creates the meters of an engine without further tags. */
  public QuireMetrics(ChatEngine engine) {
    this(engine, List.of());
  }

  @Override
  public void bindTo(MeterRegistry registry) {
    gauge(registry, "quire.jobs", "state", "running", "Jobs now", Stats::jobsRunning);
    gauge(registry, "quire.jobs", "state", "queued", "Jobs now", Stats::jobsQueued);
    counter(registry, "quire.jobs.ended", "result", "finished", "Jobs that have ended", Stats::jobsFinished);
    counter(registry, "quire.jobs.ended", "result", "failed", "Jobs that have ended", Stats::jobsFailed);
    counter(registry, "quire.jobs.ended", "result", "cancelled", "Jobs that have ended", Stats::jobsCancelled);
    counter(registry, "quire.tokens", "kind", "prompt", "Tokens of all jobs", Stats::promptTokens);
    counter(registry, "quire.tokens", "kind", "cached", "Tokens of all jobs", Stats::cachedTokens);
    counter(registry, "quire.tokens", "kind", "new", "Tokens of all jobs", Stats::newTokens);
    counter(registry, "quire.preemptions", "cause", "memory", "Jobs that lost their pages to others", Stats::preemptions);
    gauge(registry, "quire.cache.pages", "state", "free", "Pages of the KV cache", Stats::pagesFree);
    gauge(registry, "quire.cache.pages", "state", "cached", "Pages of the KV cache", Stats::pagesCached);
    gauge(registry, "quire.cache.pages", "state", "referenced", "Pages of the KV cache", Stats::pagesReferenced);
  }

  private void gauge(MeterRegistry registry, String name, String key, String value, String description,
      ToDoubleFunction<Stats> figure) {
    Gauge.builder(name, engine, of -> read(of, figure)).tags(tags).tag(key, value).description(description).register(registry);
  }

  private void counter(MeterRegistry registry, String name, String key, String value, String description,
      ToDoubleFunction<Stats> figure) {
    FunctionCounter.builder(name, engine, of -> read(of, figure)).tags(tags).tag(key, value).description(description)
        .register(registry);
  }

  /** Returns NaN, no value, once the engine is closed. */
  private static double read(ChatEngine engine, ToDoubleFunction<Stats> figure) {
    try {
      return figure.applyAsDouble(engine.cache().stats());
    } catch (IllegalStateException | QuireException closed) {
      return Double.NaN;
    }
  }
}
