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

// A cache of the page with its label.
struct Source {
  std::string label;
  const CacheMetrics& metrics;
};

// One family: a sample of each cache.
template <typename Read>
void add_family(PrometheusText& text, const std::vector<Source>& sources, const char* name, const char* help,
                const char* type, Read&& read) {
  text.open(name, help, type);
  for (const Source& source : sources) text.sample(source.label, read(source.metrics));
}

void add_pages(PrometheusText& text, const std::vector<Source>& sources) {
  const auto add = [&](const char* name, const char* help, const char* type, auto&& read) {
    add_family(text, sources, name, help, type,
               [&](const CacheMetrics& of) { return static_cast<uint64_t>(read(of.stats)); });
  };
  using Stats = const CacheStats&;
  add("quire_pages", "Pages of the cache.", "gauge", [](Stats of) { return of.pages.total; });
  add("quire_pages_free", "Pages that hold nothing.", "gauge", [](Stats of) { return of.pages.free; });
  add("quire_pages_cached", "Pages that hold a prefix nobody uses now.", "gauge",
      [](Stats of) { return of.pages.cached; });
  add("quire_pages_referenced", "Pages in use.", "gauge", [](Stats of) { return of.pages.referenced; });
  add("quire_pages_pinned", "Pages kept by a pin.", "gauge", [](Stats of) { return of.pages.pinned; });
  add("quire_pages_deduplicated_total", "Pages dropped for an equal one.", "counter",
      [](Stats of) { return of.pages_deduplicated; });
  add("quire_pages_evicted_total", "Cached pages taken for something else.", "counter",
      [](Stats of) { return of.pages_evicted; });
  add("quire_prefix_host_pages", "Pages that left the cache and are kept in host memory.", "gauge",
      [](Stats of) { return of.prefixes.host_pages; });
  add("quire_prefix_host_bytes", "Host memory that they take.", "gauge",
      [](Stats of) { return of.prefixes.host_bytes; });
  add("quire_prefix_file_pages", "Pages of this model in the directory of prefixes.", "gauge",
      [](Stats of) { return of.prefixes.file_pages; });
  add("quire_prefix_file_bytes", "Bytes of all pages in that directory.", "gauge",
      [](Stats of) { return of.prefixes.file_bytes; });
  add("quire_prefix_pages_restored_total", "Pages that came back to the cache.", "counter",
      [](Stats of) { return of.prefixes.pages_restored; });
  add("quire_prefix_files_refused_total", "Files of pages that were damaged or of something else.", "counter",
      [](Stats of) { return of.prefixes.files_refused; });
}

void add_shards(PrometheusText& text, const std::vector<Source>& sources) {
  text.open("quire_cache_shard_bytes", "Device memory of a shard: pages, and the workspace of a step.",
            "gauge");
  for (const Source& source : sources) text.samples(source.label, "shard", source.metrics.shard_bytes);
}

void add_steps(PrometheusText& text, const std::vector<Source>& sources) {
  add_family(text, sources, "quire_engine_failed", "1 where the device is gone.", "gauge",
             [](const CacheMetrics& of) {
               const ErrorCode error = of.stats.engine_error;
               return uint64_t{error != ErrorCode::ok && error != ErrorCode::closed};
             });
  add_family(text, sources, "quire_steps_total", "Forward passes.", "counter",
             [](const CacheMetrics& of) { return of.stats.steps; });
  const auto add = [&](const char* name, const char* help, Histogram StepHistograms::*values) {
    text.open(name, help, "histogram");
    for (const Source& source : sources) text.sample(source.label, source.metrics.steps.*values);
  };
  add("quire_batch_fill", "The part of the places for running jobs that took part in a step.",
      &StepHistograms::batch_fill);
  add("quire_step_sequences", "Sequences in one step.", &StepHistograms::sequences);
  add("quire_step_tokens", "Tokens computed in one step.", &StepHistograms::tokens);
}

void add_name_spaces(PrometheusText& text, const std::vector<Source>& sources) {
  std::vector<Group> groups;
  std::vector<const NamespaceMetrics*> spaces;
  for (const Source& source : sources) {
    for (const NamespaceMetrics& space : source.metrics.name_spaces) {
      std::string labels = source.label;
      labels.append(",").append(prometheus_label("namespace", printable(space.name, space.name.size() * 4)));
      groups.push_back({std::move(labels), &space.counts, &space.histograms});
      spaces.push_back(&space);
    }
  }
  add_jobs(text, "quire_namespace_", groups);
  const auto add = [&](const char* name, const char* help, int32_t NamespaceMetrics::*value) {
    if (!groups.empty()) text.open(name, help, "gauge");
    for (size_t i = 0; i < groups.size(); ++i)
      text.sample(groups[i].labels, static_cast<uint64_t>(spaces[i]->*value));
  };
  add("quire_namespace_pages_held", "Pages that jobs hold; a shared one counts for each holder.",
      &NamespaceMetrics::held_pages);
  add("quire_namespace_pages_pinned", "Pages kept by a pin.", &NamespaceMetrics::pinned_pages);
  add_family(text, sources, "quire_untracked_jobs_total", "Jobs of namespaces too many to be told apart.",
             "counter", [](const CacheMetrics& of) { return of.untracked_jobs; });
}

}  // namespace

std::string format_metrics(const std::vector<LabelledMetrics>& caches) {
  PrometheusText text;
  std::vector<Source> sources;
  std::vector<Group> groups;
  for (const LabelledMetrics& cache : caches) {
    sources.push_back({prometheus_label("cache", cache.label), cache.metrics});
    groups.push_back({sources.back().label, &cache.metrics.stats, &cache.metrics.jobs});
  }
  if (sources.empty()) return {};
  add_jobs(text, "quire_", groups);
  add_pages(text, sources);
  add_shards(text, sources);
  add_steps(text, sources);
  add_name_spaces(text, sources);
  return text.take();
}

std::string format_metrics(const CacheMetrics& metrics, const std::string& label) {
  return format_metrics(std::vector<LabelledMetrics>{{label, metrics}});
}

}  // namespace quire
