#include "core/engine/metrics/engine_metrics.h"

#include <array>
#include <utility>
#include <vector>

#include "core/metrics/prometheus_text.h"

namespace quire {

namespace {

// One number of JobCounts. The prefix quire_ or quire_namespace_ is added to its name.
struct CountField {
  const char* name;
  const char* help;
  const char* type;
  uint64_t (*read)(const JobCounts&);
};

constexpr std::array<CountField, 12> kCountFields = {{
    {"jobs_submitted_total", "Accepted jobs.", "counter",
     [](const JobCounts& of) { return of.submitted_jobs; }},
    {"jobs_finished_total", "Finished jobs, however they ended.", "counter",
     [](const JobCounts& of) { return of.finished_jobs; }},
    {"jobs_failed_total", "Jobs that ended with an error.", "counter",
     [](const JobCounts& of) { return of.failed_jobs; }},
    {"jobs_cancelled_total", "Jobs that were cancelled.", "counter",
     [](const JobCounts& of) { return of.cancelled_jobs; }},
    {"jobs_queued", "Jobs that wait for a batch slot or for pages.", "gauge",
     [](const JobCounts& of) { return static_cast<uint64_t>(of.queued_jobs); }},
    {"jobs_running", "Jobs that hold pages.", "gauge",
     [](const JobCounts& of) { return static_cast<uint64_t>(of.running_jobs); }},
    {"preemptions_total", "How often a job was preempted: its pages were freed and recomputed later.",
     "counter", [](const JobCounts& of) { return of.preemptions; }},
    {"prompt_tokens_computed_total", "Prompt tokens that were computed.", "counter",
     [](const JobCounts& of) { return of.prompt_tokens_computed; }},
    {"prompt_tokens_cached_total", "Prompt tokens that were found in the prefix cache.", "counter",
     [](const JobCounts& of) { return of.prompt_tokens_cached; }},
    {"new_tokens_total", "Generated tokens.", "counter", [](const JobCounts& of) { return of.new_tokens; }},
    {"draft_tokens_total", "Draft tokens proposed by speculative decoding.", "counter",
     [](const JobCounts& of) { return of.draft_tokens; }},
    {"draft_tokens_accepted_total", "Draft tokens that were accepted.", "counter",
     [](const JobCounts& of) { return of.draft_tokens_accepted; }},
}};

struct HistogramField {
  const char* name;
  const char* help;
  Histogram JobHistograms::*values;
};

constexpr std::array<HistogramField, 4> kHistogramFields = {{
    {"time_queued_seconds", "Time from submit to the first step.", &JobHistograms::time_queued},
    {"time_to_first_token_seconds", "Time from submit to the first token.",
     &JobHistograms::time_to_first_token},
    {"time_between_tokens_seconds", "Time between two tokens of a job.", &JobHistograms::time_between_tokens},
    {"cached_share", "Fraction of a prompt that was found in the prefix cache.",
     &JobHistograms::cached_share},
}};

// Counts and histograms of jobs, with the labels of their samples.
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
  text.open(prefix + "draft_tokens_accepted_by_position_total",
            "Accepted draft tokens by their position among those of a step.", "counter");
  for (const Group& group : groups) {
    for (size_t i = 0; i < group.counts->accepted_by_position.size(); ++i) {
      const std::string position = prometheus_label("position", std::to_string(i + 1));
      text.sample(group.labels + "," + position, group.counts->accepted_by_position[i]);
    }
  }
  for (const HistogramField& field : kHistogramFields) {
    text.open(prefix + field.name, field.help, "histogram");
    for (const Group& group : groups) text.sample(group.labels, group.histograms->*field.values);
  }
}

// A cache with its label.
struct Source {
  std::string label;
  const CacheMetrics& metrics;
};

// Writes one metric family: a sample for each cache.
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
  add("quire_pages_free", "Empty pages.", "gauge", [](Stats of) { return of.pages.free; });
  add("quire_pages_cached", "Pages with a prefix that no job uses now.", "gauge",
      [](Stats of) { return of.pages.cached; });
  add("quire_pages_referenced", "Pages in use.", "gauge", [](Stats of) { return of.pages.referenced; });
  add("quire_pages_pinned", "Pages that a pin protects from eviction.", "gauge",
      [](Stats of) { return of.pages.pinned; });
  add("quire_pages_deduplicated_total", "Pages replaced by an equal one.", "counter",
      [](Stats of) { return of.pages_deduplicated; });
  add("quire_pages_evicted_total", "Cached pages that were evicted.", "counter",
      [](Stats of) { return of.pages_evicted; });
  add("quire_prefix_host_pages", "Evicted pages in host memory.", "gauge",
      [](Stats of) { return of.prefixes.host_pages; });
  add("quire_prefix_host_bytes", "Host memory of evicted pages.", "gauge",
      [](Stats of) { return of.prefixes.host_bytes; });
  add("quire_prefix_file_pages", "Pages of this model in the prefix directory.", "gauge",
      [](Stats of) { return of.prefixes.file_pages; });
  add("quire_prefix_file_bytes", "Bytes of all pages in the prefix directory.", "gauge",
      [](Stats of) { return of.prefixes.file_bytes; });
  add("quire_prefix_pages_restored_total", "Evicted pages that were restored to the cache.", "counter",
      [](Stats of) { return of.prefixes.pages_restored; });
  add("quire_prefix_files_refused_total", "Page files that were damaged or had other content.", "counter",
      [](Stats of) { return of.prefixes.files_refused; });
}

void add_shards(PrometheusText& text, const std::vector<Source>& sources) {
  text.open("quire_cache_shard_bytes", "Device memory of a shard: pages, and the workspace of a step.",
            "gauge");
  for (const Source& source : sources) text.samples(source.label, "shard", source.metrics.shard_bytes);
}

void add_steps(PrometheusText& text, const std::vector<Source>& sources) {
  add_family(text, sources, "quire_engine_failed", "1 if the device is lost.", "gauge",
             [](const CacheMetrics& of) {
               const ErrorCode error = of.stats.engine_error;
               return uint64_t{error != ErrorCode::ok && error != ErrorCode::closed};
             });
  add_family(text, sources, "quire_steps_total", "Forward passes.", "counter",
             [](const CacheMetrics& of) { return of.stats.steps; });
  add_family(text, sources, "quire_card_expert_hits_total", "Choices of host experts that the card had.",
             "counter", [](const CacheMetrics& of) { return of.stats.card_experts.hits; });
  add_family(text, sources, "quire_card_expert_misses_total", "Choices of host experts that the card lacked.",
             "counter", [](const CacheMetrics& of) { return of.stats.card_experts.misses; });
  const auto add = [&](const char* name, const char* help, Histogram StepHistograms::*values) {
    text.open(name, help, "histogram");
    for (const Source& source : sources) text.sample(source.label, source.metrics.steps.*values);
  };
  add("quire_batch_fill", "Jobs of a step as a fraction of max_batch_size.", &StepHistograms::batch_fill);
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
  add("quire_namespace_pages_held", "Pages of jobs; a shared page counts for each job.",
      &NamespaceMetrics::held_pages);
  add("quire_namespace_pages_pinned", "Pages that a pin protects from eviction.",
      &NamespaceMetrics::pinned_pages);
  add_family(text, sources, "quire_untracked_jobs_total", "Jobs of namespaces beyond the limit of 64.",
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
