#include "core/engine/engine_metrics.h"

#include "core/metrics/prometheus_text.h"

namespace quire {

namespace {

void add_counters(PrometheusText& text, const CacheStats& stats) {
  text.counter("quire_jobs_submitted_total", "Jobs taken into the queue.", stats.submitted_jobs);
  text.counter("quire_jobs_finished_total", "Jobs that are over, in any way.", stats.finished_jobs);
  text.counter("quire_jobs_failed_total", "Jobs that ended with an error.", stats.failed_jobs);
  text.counter("quire_jobs_cancelled_total", "Jobs that were cancelled.", stats.cancelled_jobs);
  text.counter("quire_preemptions_total", "Jobs that had to give their pages back for a while.",
               stats.preemptions);
  text.counter("quire_steps_total", "Forward passes.", stats.steps);
  text.counter("quire_prompt_tokens_computed_total", "Tokens of prompts that were computed.",
               stats.prompt_tokens_computed);
  text.counter("quire_prompt_tokens_cached_total", "Tokens of prompts that were found in the cache.",
               stats.prompt_tokens_cached);
  text.counter("quire_new_tokens_total", "Tokens generated.", stats.new_tokens);
  text.counter("quire_pages_deduplicated_total", "Pages dropped for an equal one.", stats.pages_deduplicated);
  text.counter("quire_pages_evicted_total", "Cached pages taken for something else.", stats.pages_evicted);
}

void add_gauges(PrometheusText& text, const CacheStats& stats) {
  text.gauge("quire_jobs_queued", "Jobs that wait.", stats.queued_jobs);
  text.gauge("quire_jobs_running", "Jobs that hold pages.", stats.running_jobs);
  text.gauge("quire_pages", "Pages of the cache.", stats.pages.total);
  text.gauge("quire_pages_free", "Pages that hold nothing.", stats.pages.free);
  text.gauge("quire_pages_cached", "Pages that hold a prefix nobody uses now.", stats.pages.cached);
  text.gauge("quire_pages_referenced", "Pages in use.", stats.pages.referenced);
  text.gauge("quire_pages_pinned", "Pages kept by a pin.", stats.pages.pinned);
  text.gauge("quire_engine_failed", "1 where the engine has failed.",
             stats.engine_error == ErrorCode::ok || stats.engine_error == ErrorCode::closed ? 0 : 1);
}

}  // namespace

std::string format_metrics(const CacheStats& stats, const EngineMetrics& metrics, const std::string& label) {
  PrometheusText text("cache", label);
  add_counters(text, stats);
  add_gauges(text, stats);
  text.histogram("quire_time_queued_seconds", "From submit to the first step.", metrics.time_queued);
  text.histogram("quire_time_to_first_token_seconds", "From submit to the first token.",
                 metrics.time_to_first_token);
  text.histogram("quire_time_between_tokens_seconds", "Between two tokens of a job.",
                 metrics.time_between_tokens);
  text.histogram("quire_step_sequences", "Sequences in one step.", metrics.sequences_per_step);
  text.histogram("quire_step_tokens", "Tokens computed in one step.", metrics.tokens_per_step);
  return text.take();
}

}  // namespace quire
