#include "capi/cli/workload_bench.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <sstream>

#include "capi/cli/failure.h"
#include "capi/cli/prompt_maker.h"
#include "capi/cli/terminal.h"
#include "capi/cli/workload.h"

namespace quire::cli {
namespace {

constexpr int64_t kMostWaitNs = 50'000'000;  // maximum delay until an interrupt is noticed

// Observations of a client about its job.
struct Seen {
  double submitted = 0;
  double first_token = -1;
  double last_token = -1;
  int64_t num_tokens = 0;
  bool over = false;

  double first_token_ms() const { return 1e3 * (first_token - submitted); }
  double token_ms() const {
    return num_tokens > 1 ? 1e3 * (last_token - first_token) / static_cast<double>(num_tokens - 1) : 0;
  }
};

struct RateResult {
  double rate = 0;  // 0 means all at once
  double seconds = 0;
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t new_tokens = 0;
  std::vector<double> first_token_ms;
  std::vector<double> token_gaps_ms;
  double good_jobs = 0;
  size_t num_jobs = 0;

  double tokens_per_second() const { return static_cast<double>(new_tokens) / seconds; }
  double jobs_per_second() const { return static_cast<double>(num_jobs) / seconds; }
  double good_jobs_per_second() const { return good_jobs / seconds; }
};

// Runs one rate on a cache of its own, on the caller's thread: submits the jobs that are due, then waits for
// events.
class WorkloadRun {
 public:
  WorkloadRun(quire_runtime* runtime, quire_cache* cache, const std::vector<WorkloadJob>& jobs,
              PromptMaker& prompts)
      : cache_(cache), queue_(call(quire_queue_create, runtime)), jobs_(jobs), seen_(jobs.size()) {
    std::vector<std::vector<int32_t>> prefixes;
    for (const WorkloadJob& job : jobs) {
      while (job.prefix >= static_cast<int32_t>(prefixes.size()))
        prefixes.push_back(prompts.make(job.prefix_tokens));
      prompts_.push_back(job.prefix >= 0 ? prefixes[static_cast<size_t>(job.prefix)]
                                         : std::vector<int32_t>());
      const std::vector<int32_t> own = prompts.make(job.prompt_tokens);
      prompts_.back().insert(prompts_.back().end(), own.begin(), own.end());
    }
  }

  RateResult run(double rate, const WorkloadOptions& limits, Interrupt& interrupt) {
    start_ = std::chrono::steady_clock::now();
    while (num_over_ < jobs_.size()) {
      if (interrupt.requested()) throw Failure(interrupt.exit_code(), "interrupted");
      while (handles_.size() < jobs_.size() && jobs_[handles_.size()].arrival_seconds <= elapsed())
        submit_next();
      if (const Event event = next(queue_, wait_ns())) take(event);
    }
    return result(rate, limits);
  }

 private:
  double elapsed() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  int64_t wait_ns() const {
    if (handles_.size() == jobs_.size()) return kMostWaitNs;
    const double until = jobs_[handles_.size()].arrival_seconds - elapsed();
    return std::clamp(static_cast<int64_t>(1e9 * until), int64_t{0}, kMostWaitNs);
  }
  void submit_next() {
    const size_t idx = handles_.size();
    const Request request(call(quire_job_request_create));
    call(quire_job_request_set_prompt_tokens, request.get(), prompts_[idx]);
    call(quire_job_request_set_max_new_tokens, request.get(), jobs_[idx].new_tokens);
    call(quire_job_request_set_temperature, request.get(), 0.0);
    call(quire_job_request_set_ignore_eos, request.get(), 1);
    call(quire_job_request_set_queue, request.get(), queue_.get());
    call(quire_job_request_set_user_data, request.get(), uint64_t{idx});
    // Count from the arrival of the job, not from the time when this thread submits it.
    seen_[idx].submitted = std::min(elapsed(), jobs_[idx].arrival_seconds);
    handles_.emplace_back(call(quire_job_submit, cache_, request.get()));
  }
  void take(const Event& event) {
    Seen& seen = seen_.at(call(quire_event_user_data, event));
    const auto tokens = static_cast<int64_t>(values_of<int32_t>(quire_event_tokens, event).size());
    if (tokens > 0) {
      const double now = elapsed();
      if (seen.first_token < 0)
        seen.first_token = now;
      else
        gaps_ms_.push_back(1e3 * (now - seen.last_token) / static_cast<double>(tokens));
      seen.last_token = now;
      seen.num_tokens += tokens;
    }
    const int32_t type = call(quire_event_type, event);
    if (type == QUIRE_EVENT_ERROR) {
      throw Failure(kExitFailed, "bench: " + text_of(quire_event_error_message, event));
    }
    if (type == QUIRE_EVENT_FINISHED) ++num_over_;
  }
  RateResult result(double rate, const WorkloadOptions& limits) const {
    RateResult result;
    result.rate = rate;
    result.seconds = elapsed();
    result.num_jobs = jobs_.size();
    result.token_gaps_ms = gaps_ms_;
    for (size_t idx = 0; idx < jobs_.size(); ++idx) {
      const Seen& seen = seen_[idx];
      result.prompt_tokens += static_cast<int64_t>(prompts_[idx].size());
      result.cached_tokens += call(quire_job_cached_tokens, handles_[idx].get());
      result.new_tokens += seen.num_tokens;
      result.first_token_ms.push_back(seen.first_token_ms());
      if (seen.first_token_ms() <= limits.first_token_limit_ms && seen.token_ms() <= limits.token_limit_ms)
        result.good_jobs += 1;
    }
    return result;
  }

  quire_cache* cache_;
  Queue queue_;
  const std::vector<WorkloadJob>& jobs_;
  std::vector<std::vector<int32_t>> prompts_;
  std::vector<Job> handles_;
  std::vector<Seen> seen_;
  std::vector<double> gaps_ms_;
  std::chrono::steady_clock::time_point start_;
  size_t num_over_ = 0;
};

Cache open_cache(quire_model* model, const ModelChoice& choice, int32_t kv_format,
                 const WorkloadOptions& options) {
  const CacheOptions made = choose_cache(choice);
  call(quire_cache_options_set_page_tokens, made.get(), 256);
  call(quire_cache_options_set_max_tokens, made.get(), int64_t{(options.cache_tokens + 255) / 256} * 256);
  call(quire_cache_options_set_max_batch_size, made.get(), options.max_batch);
  call(quire_cache_options_set_kv_format, made.get(), kv_format);
  if (options.step_stretch) call(quire_cache_options_set_step_stretch, made.get(), *options.step_stretch);
  return Cache(call(quire_cache_create, model, made.get()));
}

std::string rate_name(double rate) {
  return rate > 0 ? format_number(rate, 2) : "all at once";
}

Json percentiles(const std::vector<double>& values) {
  return {
      {"p50", percentile(values, 0.5)}, {"p90", percentile(values, 0.9)}, {"p99", percentile(values, 0.99)}};
}

void print_as_json(const std::string& model, const WorkloadOptions& options,
                   const std::vector<RateResult>& results) {
  Json json = {{"model", model},
               {"workload", options.name},
               {"jobs", options.num_jobs},
               {"max_batch", options.max_batch},
               {"first_token_limit_ms", options.first_token_limit_ms},
               {"token_limit_ms", options.token_limit_ms}};
  json["results"] = Json::array();
  for (const RateResult& r : results)
    json["results"].push_back({{"jobs_per_second_offered", r.rate},
                               {"jobs_per_second", r.jobs_per_second()},
                               {"good_jobs_per_second", r.good_jobs_per_second()},
                               {"tokens_per_second", r.tokens_per_second()},
                               {"prompt_tokens", r.prompt_tokens},
                               {"cached_tokens", r.cached_tokens},
                               {"new_tokens", r.new_tokens},
                               {"seconds", r.seconds},
                               {"first_token_ms", percentiles(r.first_token_ms)},
                               {"between_tokens_ms", percentiles(r.token_gaps_ms)}});
  print_json(json);
}

void print_as_text(const std::string& model, const WorkloadOptions& options,
                   const std::vector<RateResult>& results) {
  print_line(model);
  print_line("workload " + options.name + ", " + std::to_string(options.num_jobs) +
             " jobs; good jobs: first token within " + format_number(options.first_token_limit_ms, 0) +
             " ms, then at most " + format_number(options.token_limit_ms, 0) + " ms per token on average");
  Table table({"jobs/s", "done/s", "good/s", "tok/s", "cached", "first ms", "p90", "p99", "between ms", "p90",
               "p99"});
  for (const RateResult& r : results) {
    std::vector<std::string> row{rate_name(r.rate), format_number(r.jobs_per_second(), 2),
                                 format_number(r.good_jobs_per_second(), 2),
                                 format_number(r.tokens_per_second(), 1),
                                 format_number(100.0 * static_cast<double>(r.cached_tokens) /
                                                   static_cast<double>(std::max<int64_t>(r.prompt_tokens, 1)),
                                               0) +
                                     "%"};
    for (const std::vector<double>* values : {&r.first_token_ms, &r.token_gaps_ms})
      for (const double share : {0.5, 0.9, 0.99}) row.push_back(format_number(percentile(*values, share), 1));
    table.add(std::move(row));
  }
  print("\n" + table.text());
}

// Writes a chart of tokens per second against the time between tokens (99th percentile), with one point per
// rate.
void write_svg(const std::string& path, const WorkloadOptions& options,
               const std::vector<RateResult>& results) {
  constexpr double kWidth = 640, kHeight = 360, kLeft = 70, kBottom = 50;
  double most_tokens = 1, most_ms = 1;
  for (const RateResult& r : results) {
    most_tokens = std::max(most_tokens, r.tokens_per_second());
    most_ms = std::max(most_ms, percentile(r.token_gaps_ms, 0.99));
  }
  const auto x = [&](const RateResult& r) {
    return kLeft + (kWidth - kLeft - 90) * r.tokens_per_second() / most_tokens;
  };
  const auto y = [&](const RateResult& r) {
    return kHeight - kBottom - (kHeight - kBottom - 40) * percentile(r.token_gaps_ms, 0.99) / most_ms;
  };
  std::ostringstream svg, line;
  svg << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"640\" height=\"360\" font-family=\"sans-serif\" "
         "font-size=\"12\">\n"
      << "<rect width=\"640\" height=\"360\" fill=\"white\"/>\n<text x=\"70\" y=\"18\">workload "
      << options.name
      << ": time between tokens (ms, 99th percentile) by tokens per second; labels: jobs per second</text>\n"
      << "<path d=\"M70 40V310H620\" fill=\"none\" stroke=\"#888\"/>\n<text x=\"62\" y=\"48\" "
         "text-anchor=\"end\">"
      << format_number(most_ms, 1) << "</text>\n<text x=\"550\" y=\"328\" text-anchor=\"middle\">"
      << format_number(most_tokens, 0) << "</text>\n";
  for (const RateResult& r : results) {
    line << x(r) << "," << y(r) << " ";
    svg << "<circle cx=\"" << x(r) << "\" cy=\"" << y(r) << "\" r=\"3\" fill=\"#06c\"/><text x=\"" << x(r) + 6
        << "\" y=\"" << y(r) - 6 << "\">" << rate_name(r.rate) << "</text>\n";
  }
  svg << "<polyline points=\"" << line.str()
      << "\" fill=\"none\" stroke=\"#06c\" stroke-width=\"2\"/>\n</svg>\n";
  std::ofstream file(path);
  if (!(file << svg.str()) || !file.flush()) throw Failure(kExitFailed, "cannot write " + path);
}

}  // namespace

void add_workload_options(CLI::App& app, WorkloadOptions& options) {
  CLI::Option* const name =
      app.add_option("--workload", options.name, "Simulate clients: jobs of this workload arrive over time")
          ->type_name("NAME")
          ->check(CLI::IsMember(workload_names()));
  app.add_option("--rate", options.rates,
                 "Arrivals per second of a workload, separated by commas; 0 means all at once")
      ->type_name("R,...")
      ->delimiter(',')
      ->needs(name)
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  app.add_option("--jobs", options.num_jobs, "Jobs of a workload at each rate")
      ->type_name("N")
      ->needs(name)
      ->check(in_range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--max-batch", options.max_batch, "Maximum running jobs of a workload")
      ->type_name("N")
      ->needs(name)
      ->check(in_range(1, 4096))
      ->capture_default_str();
  app.add_option("--cache-tokens", options.cache_tokens, "Tokens of the cache of a workload")
      ->type_name("N")
      ->needs(name)
      ->check(in_range(256, 1 << 30))
      ->capture_default_str();
  app.add_option(
         "--step-stretch", options.step_stretch,
         "Maximum duration of a workload's steps that compute prompts, as a multiple of decode steps; "
         "0 means no limit")
      ->type_name("TIMES")
      ->needs(name)
      ->check(CLI::Range(0.0, 1000.0));
  app.add_option("--first-token-limit", options.first_token_limit_ms,
                 "Maximum milliseconds to the first token of a good job")
      ->type_name("MS")
      ->needs(name)
      ->capture_default_str();
  app.add_option("--token-limit", options.token_limit_ms,
                 "Maximum milliseconds per token of a good job, on average")
      ->type_name("MS")
      ->needs(name)
      ->capture_default_str();
  app.add_option("--svg", options.svg_path, "Write a chart of the workload's results")
      ->type_name("FILE")
      ->needs(name);
}

int run_workload_bench(const ModelChoice& choice, int32_t kv_format, const WorkloadOptions& options,
                       Interrupt& interrupt) {
  const Runtime runtime = open_runtime(choice);
  const Model model = load_model(runtime.get(), choice, QUIRE_MODEL_SCOPE_FULL, interrupt);
  std::vector<RateResult> results;
  Progress progress;
  for (const double rate : options.rates) {
    progress.show("rate " + rate_name(rate));
    const Cache cache = open_cache(model.get(), choice, kv_format, options);
    const std::vector<WorkloadJob> jobs = make_workload(options.name, options.num_jobs, rate);
    PromptMaker prompts(model.get());
    results.push_back(WorkloadRun(runtime.get(), cache.get(), jobs, prompts).run(rate, options, interrupt));
  }
  progress.clear();
  const std::string path = resolve_model_path(choice);
  choice.json ? print_as_json(path, options, results) : print_as_text(path, options, results);
  if (!options.svg_path.empty()) write_svg(options.svg_path, options, results);
  return kExitOk;
}

}  // namespace quire::cli
