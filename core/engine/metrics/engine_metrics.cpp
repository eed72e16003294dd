#include "core/engine/metrics/engine_metrics.h"

#include <array>
#include <utility>
#include <vector>

#include "core/metrics/prometheus_text.h"

namespace quire {

namespace {

// One number of JobCounts under the end of its name: quire_ or quire_namespace_ comes before.
struct CountField {
  const char* name;
  const char* help;
  const char* type;
  uint64_t (*read)(const JobCounts&);
};

constexpr std::array<CountField, 12> kCountFields = {{
    {"jobs_submitted_total", "Jobs that were taken in.", "counter",
     [](const JobCounts& of) { return of.submitted_jobs; }},
    {"jobs_finished_total", "Jobs that are over, in any way.", "counter",
     [](const JobCounts& of) { return of.finished_jobs; }},
    {"jobs_failed_total", "Jobs that ended with an error.", "counter",
     [](const JobCounts& of) { return of.failed_jobs; }},
    {"jobs_cancelled_total", "Jobs that were cancelled.", "counter",
     [](const JobCounts& of) { return of.cancelled_jobs; }},
    {"jobs_queued", "Jobs that wait for a place or for pages.", "gauge",
     [](const JobCounts& of) { return static_cast<uint64_t>(of.queued_jobs); }},
    {"jobs_running", "Jobs that hold pages.", "gauge",
     [](const JobCounts& of) { return static_cast<uint64_t>(of.running_jobs); }},
    {"preemptions_total", "How often a job had to give its pages back for a while.", "counter",
     [](const JobCounts& of) { return of.preemptions; }},
    {"prompt_tokens_computed_total", "Tokens of prompts that were computed.", "counter",
     [](const JobCounts& of) { return of.prompt_tokens_computed; }},
    {"prompt_tokens_cached_total", "Tokens of prompts that were found in the cache.", "counter",
     [](const JobCounts& of) { return of.prompt_tokens_cached; }},
    {"new_tokens_total", "Tokens generated.", "counter", [](const JobCounts& of) { return of.new_tokens; }},
    {"draft_tokens_total", "Tokens that speculation proposed.", "counter",
     [](const JobCounts& of) { return of.draft_tokens; }},
    {"draft_tokens_accepted_total", "Proposed tokens that stood.", "counter",
     [](const JobCounts& of) { return of.draft_tokens_accepted; }},
}};

struct HistogramField {
  const char* name;
  const char* help;
  Histogram JobHistograms::*values;
};

constexpr std::array<HistogramField, 4> kHistogramFields = {{
    {"time_queued_seconds", "From submit to the first step.", &JobHistograms::time_queued},
    {"time_to_first_token_seconds", "From submit to the first token.", &JobHistograms::time_to_first_token},
    {"time_between_tokens_seconds", "Between two tokens of a job.", &JobHistograms::time_between_tokens},
    {"cached_share", "The part of a prompt that was found in the cache.", &JobHistograms::cached_share},
}};

// Counts and histograms of jobs, and the labels of their samples.
struct Group {
  std::string labels;
  const JobCounts* counts;
  const JobHistograms* histograms;
};

void add_jobs(PrometheusText& text, const std::string& prefix, const std::vector<Group>& groups) {
  if (groups.empty()) return;
  for (const CountField& field : kCountFields) {
    text.open(prefix + field.name, field.help, field.type);
    for (const Group& group : groups) text.sample(group.labels, field.read(*group.counts));
  }
  for (const HistogramField& field : kHistogramFields) {
    text.open(prefix + field.name, field.help, "histogram");
    for (const Group& group : groups) text.sample(group.labels, group.histograms->*field.values);
  }
}

void add_pages(PrometheusText& text, const std::string& labels, const CacheStats& stats) {
  const auto add = [&](const char* name, const char* help, const char* type, auto value) {
    text.open(name, help, type);
    text.sample(labels, static_cast<uint64_t>(value));
  };
  add("quire_pages", "Pages of the cache.", "gauge", stats.pages.total);
  add("quire_pages_free", "Pages that hold nothing.", "gauge", stats.pages.free);
  add("quire_pages_cached", "Pages that hold a prefix nobody uses now.", "gauge", stats.pages.cached);
  add("quire_pages_referenced", "Pages in use.", "gauge", stats.pages.referenced);
  add("quire_pages_pinned", "Pages kept by a pin.", "gauge", stats.pages.pinned);
  add("quire_pages_deduplicated_total", "Pages dropped for an equal one.", "counter",
      stats.pages_deduplicated);
  add("quire_pages_evicted_total", "Cached pages taken for something else.", "counter", stats.pages_evicted);
}

void add_steps(PrometheusText& text, const std::string& labels, const CacheMetrics& metrics) {
  const ErrorCode error = metrics.stats.engine_error;
  text.open("quire_engine_failed", "1 where the device is gone.", "gauge");
  text.sample(labels, uint64_t{error != ErrorCode::ok && error != ErrorCode::closed});
  text.open("quire_steps_total", "Forward passes.", "counter");
  text.sample(labels, metrics.stats.steps);
  text.open("quire_batch_fill", "The part of the places for running jobs that took part in a step.",
            "histogram");
  text.sample(labels, metrics.steps.batch_fill);
  text.open("quire_step_sequences", "Sequences in one step.", "histogram");
  text.sample(labels, metrics.steps.sequences);
  text.open("quire_step_tokens", "Tokens computed in one step.", "histogram");
  text.sample(labels, metrics.steps.tokens);
}

void add_name_spaces(PrometheusText& text, const std::string& cache_label, const CacheMetrics& metrics) {
  std::vector<Group> groups;
  for (const NamespaceMetrics& space : metrics.name_spaces) {
    std::string labels = cache_label;
    labels.append(",").append(prometheus_label("namespace", printable(space.name, space.name.size() * 4)));
    groups.push_back({std::move(labels), &space.counts, &space.histograms});
  }
  add_jobs(text, "quire_namespace_", groups);
  const auto add = [&](const char* name, const char* help, int32_t NamespaceMetrics::*value) {
    if (!groups.empty()) text.open(name, help, "gauge");
    for (size_t i = 0; i < groups.size(); ++i)
      text.sample(groups[i].labels, static_cast<uint64_t>(metrics.name_spaces[i].*value));
  };
  add("quire_namespace_pages_held", "Pages that jobs hold; a shared one counts for each holder.",
      &NamespaceMetrics::held_pages);
  add("quire_namespace_pages_pinned", "Pages kept by a pin.", &NamespaceMetrics::pinned_pages);
  text.open("quire_untracked_jobs_total", "Jobs of namespaces too many to be told apart.", "counter");
  text.sample(cache_label, metrics.untracked_jobs);
}

}  // namespace

std::string format_metrics(const CacheMetrics& metrics, const std::string& label) {
  PrometheusText text;
  const std::string cache_label = prometheus_label("cache", label);
  add_jobs(text, "quire_", {{cache_label, &metrics.stats, &metrics.jobs}});
  add_pages(text, cache_label, metrics.stats);
  add_steps(text, cache_label, metrics);
  add_name_spaces(text, cache_label, metrics);
  return text.take();
}

}  // namespace quire
