// quire generate: continues a text, once or several times in parallel.
#include <algorithm>
#include <random>

#include "capi/cli/commands.h"
#include "capi/cli/failure.h"
#include "capi/cli/generate_options.h"
#include "capi/cli/input.h"
#include "capi/cli/job_batch.h"
#include "capi/cli/terminal.h"

namespace quire::cli {
namespace {

double milliseconds(int64_t nanoseconds) {
  return static_cast<double>(nanoseconds) * 1e-6;
}

std::string read_prompt(const GenerateOptions& options, const Interrupt& interrupt) {
  return options.prompt_file.empty() ? options.prompt : read_input(options.prompt_file, interrupt);
}

// Maximum number of jobs that run at the same time; further jobs wait.
constexpr int kMaxJobsAtOnce = 64;

// Opens a cache with memory for every running job at its maximum length, as far as the model allows.
Cache open_cache(quire_model* model, const GenerateOptions& options, size_t prompt_tokens) {
  const int64_t longest = options.context.value_or(std::min(
      call(quire_model_max_context, model), static_cast<int64_t>(prompt_tokens) + options.max_new_tokens));
  const CacheOptions cache_options = choose_cache(options.model);
  const int32_t jobs_at_once = std::min(options.num_jobs, kMaxJobsAtOnce);
  const int32_t sequences = options.negative_prompt ? 2 * jobs_at_once : jobs_at_once;
  const int64_t page_tokens = 256;
  const int64_t rounded = (longest + page_tokens - 1) / page_tokens * page_tokens;
  call(quire_cache_options_set_page_tokens, cache_options.get(), static_cast<int32_t>(page_tokens));
  call(quire_cache_options_set_max_tokens, cache_options.get(), rounded * sequences);
  call(quire_cache_options_set_max_batch_size, cache_options.get(), sequences);
  call(quire_cache_options_set_max_queue, cache_options.get(), options.num_jobs);
  if (options.min_cache_tokens)
    call(quire_cache_options_set_min_tokens, cache_options.get(), *options.min_cache_tokens);
  if (!options.prefix_directory.empty())
    call(quire_cache_options_set_prefix_directory, cache_options.get(), options.prefix_directory);
  if (options.context) call(quire_cache_options_set_max_seq_len, cache_options.get(), *options.context);
  return Cache(call(quire_cache_create, model, cache_options.get()));
}

// Writes texts: the text of a single job in pieces as it is generated, the texts of several jobs whole and in
// order, each with a heading.
class TextWriter {
 public:
  TextWriter(const GenerateOptions& options, const JobBatch& batch, uint64_t first_seed)
      : options_(options), batch_(batch), first_seed_(first_seed) {}

  void on_event(const std::string& text) {
    if (!options_.model.json && options_.num_jobs == 1) {
      if (!text.empty()) progress_.clear();
      print(text);
    } else if (!options_.model.json) {
      print_finished();
    }
    if (!started_streaming()) progress_.show(progress_text());
  }

  void finish() {
    progress_.clear();
    if (!options_.model.json && options_.num_jobs == 1) print("\n");
  }

 private:
  // The progress line is not needed once text appears on the same terminal.
  bool started_streaming() const {
    return !options_.model.json && options_.num_jobs == 1 && stdout_is_terminal() &&
           batch_.num_new_tokens() > 0;
  }

  std::string progress_text() const {
    const JobOutcome& first = batch_.outcomes().front();
    if (batch_.num_new_tokens() == 0 && first.usage.prompt_tokens > 0) {
      return "prompt: " + std::to_string(first.usage.prefill_done) + " of " +
             std::to_string(first.usage.prompt_tokens) + " tokens";
    }
    return std::to_string(batch_.num_new_tokens()) + " new tokens";
  }

  void print_finished() {
    const auto& outcomes = batch_.outcomes();
    for (; next_ < outcomes.size() && outcomes[next_].over; ++next_) {
      progress_.clear();
      print_line((next_ > 0 ? "\n=== job " : "=== job ") + std::to_string(next_) + ", seed " +
                 std::to_string(first_seed_ + next_) + ", " +
                 finish_reason_name(outcomes[next_].finish.reason) + " ===");
      print_line(outcomes[next_].text);
    }
  }

  const GenerateOptions& options_;
  const JobBatch& batch_;
  const uint64_t first_seed_;
  Progress progress_;
  size_t next_ = 0;
};

Json to_json(const JobOutcome& outcome, uint64_t seed, bool log_probs) {
  Json json;
  json["seed"] = seed;
  json["text"] = outcome.text;
  json["tokens"] = outcome.tokens;
  if (log_probs) json["log_probs"] = outcome.log_probs;
  json["finish_reason"] = finish_reason_name(outcome.finish.reason);
  if (outcome.finish.stop_token >= 0) json["stop_token"] = outcome.finish.stop_token;
  if (!outcome.finish.stop_text.empty()) json["stop_text"] = outcome.finish.stop_text;
  if (!outcome.finish.error.empty()) {
    json["error"] = {{"code", quire_error_code_name(outcome.finish.error_code)},
                     {"message", outcome.finish.error}};
  }
  json["prompt_tokens"] = outcome.usage.prompt_tokens;
  json["cached_tokens"] = outcome.usage.cached_tokens;
  json["new_tokens"] = outcome.usage.new_tokens;
  json["draft_tokens"] = outcome.usage.draft_tokens;
  json["accepted_draft_tokens"] = outcome.usage.accepted_draft_tokens;
  json["time_queued_ms"] = milliseconds(outcome.usage.queued_ns);
  json["time_prefill_ms"] = milliseconds(outcome.usage.prefill_ns);
  json["time_generate_ms"] = milliseconds(outcome.usage.generate_ns);
  return json;
}

void print_result_json(const GenerateOptions& options, const JobBatch& batch, uint64_t first_seed) {
  const auto& outcomes = batch.outcomes();
  Json jobs = Json::array();
  for (size_t idx = 0; idx < outcomes.size(); ++idx) {
    jobs.push_back(to_json(outcomes[idx], first_seed + idx, options.log_probs));
  }
  Json json = jobs.size() == 1 ? jobs[0] : Json::object();
  json["model"] = resolve_model_path(options.model);
  json["total_new_tokens"] = batch.num_new_tokens();
  json["seconds"] = batch.seconds();
  json["jobs"] = std::move(jobs);
  print_json(json);
}

void note_speed(const GenerateOptions& options, const JobBatch& batch) {
  const JobOutcome& first = batch.outcomes().front();
  if (options.num_jobs > 1) {
    note(std::to_string(options.num_jobs) + " jobs: " + std::to_string(batch.num_new_tokens()) +
         " tokens in " + format_number(batch.seconds(), 2) + " s, " +
         format_number(static_cast<double>(batch.num_new_tokens()) / batch.seconds(), 1) + " tokens/s");
    return;
  }
  const int64_t computed = first.usage.prompt_tokens - first.usage.cached_tokens;
  note("prompt: " + std::to_string(first.usage.prompt_tokens) + " tokens in " +
       format_number(milliseconds(first.usage.prefill_ns), 1) + " ms, " +
       format_token_rate(computed, first.usage.prefill_ns) +
       "; generated: " + std::to_string(first.usage.new_tokens) + " tokens in " +
       format_number(milliseconds(first.usage.generate_ns), 1) + " ms, " +
       format_token_rate(first.usage.new_tokens - 1, first.usage.generate_ns) + drafts_text(first.usage));
}

// Reports every failed job on a line and returns the exit code.
int report_failures(const JobBatch& batch) {
  int exit_code = kExitOk;
  for (size_t idx = 0; idx < batch.outcomes().size(); ++idx) {
    const JobOutcome& outcome = batch.outcomes()[idx];
    if (outcome.finish.reason != QUIRE_FINISH_ERROR) continue;
    note("quire: job " + std::to_string(idx) + ": " + outcome.finish.error);
    exit_code = kExitFailed;
  }
  return exit_code;
}

// Creates the constraint of --schema, or none.
Constraint open_constraint(quire_model* model, const GenerateOptions& options, const Interrupt& interrupt) {
  if (options.schema_file.empty()) return {};
  const std::string schema = read_input(options.schema_file, interrupt);
  return Constraint(call(quire_constraint_create, model, int32_t{QUIRE_CONSTRAINT_JSON_SCHEMA}, schema));
}

int generate(const GenerateOptions& options, Interrupt& interrupt) {
  const std::string text = read_prompt(options, interrupt);
  const Runtime runtime = open_runtime(options.model);
  const Model model = load_model(runtime.get(), options.model, QUIRE_MODEL_SCOPE_FULL, interrupt);
  const auto prompt = encode(model.get(), text, !options.no_special, options.parse_special);
  const auto negative =
      encode(model.get(), options.negative_prompt.value_or(""), !options.no_special, options.parse_special);
  const Request request = make_request(model.get(), options, prompt);
  set_guidance(request.get(), options, negative);
  const Constraint constraint = open_constraint(model.get(), options, interrupt);
  call(quire_job_request_set_constraint, request.get(), constraint.get());
  const Cache cache = open_cache(model.get(), options, std::max(prompt.size(), negative.size()));

  JobBatch batch(runtime.get(), cache.get());
  const uint64_t first_seed = options.seed ? *options.seed : std::random_device()();
  for (int idx = 0; idx < options.num_jobs; ++idx) {
    call(quire_job_request_set_seed, request.get(), first_seed + static_cast<uint64_t>(idx));
    batch.submit(request.get());
  }
  TextWriter writer(options, batch, first_seed);
  batch.run(interrupt, [&](size_t, const Event&, const std::string& piece) { writer.on_event(piece); });
  writer.finish();
  if (options.model.json) print_result_json(options, batch, first_seed);
  if (!options.quiet) note_speed(options, batch);
  const int exit_code = report_failures(batch);
  return interrupt.requested() ? interrupt.exit_code() : exit_code;
}

constexpr const char* kGenerateExamples = R"(Examples:
  quire generate --prompt "Once upon a time" --max-new-tokens 100
  quire generate --prompt-file story.txt --temperature 0.8 --top-p 0.95 --seed 7
  quire generate --prompt "Once" --jobs 8 --json | jq -r '.jobs[].text'
  quire generate --prompt "A person: " --schema person.json
)";

}  // namespace

Command add_generate(CLI::App& root) {
  auto options = std::make_shared<GenerateOptions>();
  CLI::App* app = root.add_subcommand("generate", "Continue a text, once or several times in parallel");
  app->footer(kGenerateExamples);
  add_generate_options(*app, *options);
  return {app, [app, options](Interrupt& interrupt) {
            if (app->count("--prompt") + app->count("--prompt-file") != 1) {
              throw Failure(kExitUsage, "generate: give either --prompt TEXT or --prompt-file FILE");
            }
            return generate(*options, interrupt);
          }};
}

}  // namespace quire::cli
