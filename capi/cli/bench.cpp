// quire bench: prefill and decode speed over batch sizes, and memory.
#include <algorithm>
#include <optional>
#include <sstream>
#include <sys/resource.h>

#include <quire/experimental.h>

#include "capi/cli/commands.h"
#include "capi/cli/failure.h"
#include "capi/cli/job_batch.h"
#include "capi/cli/prompt_maker.h"
#include "capi/cli/terminal.h"
#include "capi/cli/workload_bench.h"

namespace quire::cli {
namespace {

struct SyntheticChoice {
  std::string shape;  // empty means none
  std::string format = "exl2";
  double bits = 4.0;
  int32_t head_bits = 6;
  int32_t num_layers = 0;  // 0 means as many as the shape has
};

struct BenchOptions {
  ModelChoice model;
  SyntheticChoice synthetic;  // replaces the model
  std::vector<int32_t> batch_sizes{1, 2, 4, 8, 16};
  int32_t prompt_tokens = 512;
  int32_t new_tokens = 128;
  double temperature = 0.0;
  double top_p = 1.0;
  std::string kv_format = "f16";
  WorkloadOptions workload;
};

struct Measured {
  int32_t batch = 0;
  double prefill_tokens_per_second = 0;
  double decode_tokens_per_second = 0;  // of all jobs together
  int64_t cache_bytes = 0;
  int64_t step_bytes = 0;  // weights that one decode step reads
  int64_t draft_tokens = 0;
  int64_t accepted_draft_tokens = 0;
  int64_t card_expert_hits = 0;  // choices of host experts that the card had
  int64_t card_expert_misses = 0;

  double steps_per_second() const { return decode_tokens_per_second / batch; }
};

// Cost of the model and peak rates of the device, measured or counted by the library.
struct Limits {
  int64_t step_bytes = 0;  // with one job
  int64_t token_ops = 0;
  int64_t logit_ops = 0;
  int64_t read_bytes_per_second =
      0;  // 0 if the device cannot be measured, or there are several, the host of experts too
  int64_t ops_per_second = 0;

  bool are_known() const { return read_bytes_per_second > 0; }
  // Steps per second if only reading the weights, or only multiplying with them, took time.
  double steps_by_reads(const Measured& result) const {
    return static_cast<double>(read_bytes_per_second) / static_cast<double>(result.step_bytes);
  }
  double steps_by_arithmetic(const Measured& result) const {
    return static_cast<double>(ops_per_second) / (static_cast<double>(token_ops + logit_ops) * result.batch);
  }
  bool reads_limit(const Measured& result) const {
    return steps_by_reads(result) < steps_by_arithmetic(result);
  }
  double share_of_decode(const Measured& result) const {
    return result.steps_per_second() / std::min(steps_by_reads(result), steps_by_arithmetic(result));
  }
  // A prompt is computed many tokens at a time, so arithmetic limits its speed.
  double share_of_prefill(const Measured& result) const {
    return result.prefill_tokens_per_second * static_cast<double>(token_ops) /
           static_cast<double>(ops_per_second);
  }
};

// Returns the index of the device with a name from the options, which are checked when the model is loaded.
int32_t find_device(quire_runtime* runtime, const std::string& name) {
  const int32_t num_devices = call(quire_runtime_num_devices, runtime);
  for (int32_t idx = 0; idx < num_devices; ++idx) {
    const std::string known = text_of(quire_runtime_device_name, runtime, idx);
    if (known == name || known == name + ":0") return idx;
  }
  return 0;  // "" is the CPU
}

// Returns the only device of a list such as "cuda:0,cuda:0", or nothing if there are several.
std::optional<int32_t> find_only_device(quire_runtime* runtime, const std::string& names) {
  std::optional<int32_t> only;
  std::istringstream list(names + ",");
  for (std::string name; std::getline(list, name, ',');) {
    const int32_t device_idx = find_device(runtime, name);
    if (only.value_or(device_idx) != device_idx) return std::nullopt;
    only = device_idx;
  }
  return only;
}

class Bench {
 public:
  Bench(const BenchOptions& options, Interrupt& interrupt)
      : options_(options),
        interrupt_(interrupt),
        runtime_(open_runtime(options.model)),
        model_(load_model(runtime_.get(), options.model, QUIRE_MODEL_SCOPE_FULL, interrupt)),
        prompts_(model_.get()) {}

  Measured measure(int32_t batch_size) {
    const Cache cache = open_cache(batch_size);
    run(cache.get(), 1, 8, 2);  // warms up memory and threads
    Measured measured{.batch = batch_size};
    const JobBatch prefill = run(cache.get(), batch_size, options_.prompt_tokens, 1);
    measured.prefill_tokens_per_second =
        static_cast<double>(batch_size) * options_.prompt_tokens / prefill.all_started_seconds();
    const JobBatch decode = run(cache.get(), batch_size, 8, options_.new_tokens);
    measured.decode_tokens_per_second =
        static_cast<double>(decode.num_new_tokens() - decode.tokens_when_all_started()) /
        (decode.seconds() - decode.all_started_seconds());
    const Stats stats(call(quire_cache_stats, cache.get()));
    measured.cache_bytes = call(quire_stats_device_bytes, stats.get());
    measured.draft_tokens = call(quire_stats_draft_tokens, stats.get());
    measured.accepted_draft_tokens = call(quire_stats_accepted_draft_tokens, stats.get());
    measured.card_expert_hits = call(quire_stats_card_expert_hits, stats.get());
    measured.card_expert_misses = call(quire_stats_card_expert_misses, stats.get());
    measured.step_bytes = call(quire_model_step_bytes, model_.get(), batch_size);
    return measured;
  }

  int64_t weight_bytes() const { return call(quire_model_weight_bytes, model_.get()); }

  Limits limits() const {
    Limits limits;
    limits.step_bytes = call(quire_model_step_bytes, model_.get(), 1);
    limits.token_ops = call(quire_model_token_ops, model_.get());
    limits.logit_ops = call(quire_model_logit_ops, model_.get());
    const std::optional<int32_t> device_idx = find_only_device(runtime_.get(), options_.model.device);
    if (!device_idx || options_.model.host_experts != "none") return limits;
    try {
      limits.read_bytes_per_second =
          call(quire_runtime_measure_read_rate, runtime_.get(), *device_idx, limits.step_bytes);
      limits.ops_per_second = call(quire_runtime_measure_op_rate, runtime_.get(), *device_idx);
    } catch (const Error& error) {
      if (error.code() != QUIRE_ERROR_UNSUPPORTED) throw;
    }
    return limits;
  }

 private:
  Cache open_cache(int32_t batch_size) {
    const CacheOptions options = choose_cache(options_.model);
    const int64_t longest = std::max<int64_t>(options_.prompt_tokens + 1, options_.new_tokens + 8);
    const int64_t rounded = (longest + 255) / 256 * 256;
    call(quire_cache_options_set_page_tokens, options.get(), 256);
    call(quire_cache_options_set_max_tokens, options.get(), rounded * batch_size);
    call(quire_cache_options_set_max_batch_size, options.get(), batch_size);
    call(quire_cache_options_set_kv_format, options.get(), kv_format_of(options_.kv_format));
    return Cache(call(quire_cache_create, model_.get(), options.get()));
  }

  JobBatch run(quire_cache* cache, int32_t batch_size, int32_t prompt_tokens, int32_t new_tokens) {
    const Request request(call(quire_job_request_create));
    call(quire_job_request_set_max_new_tokens, request.get(), new_tokens);
    call(quire_job_request_set_temperature, request.get(), options_.temperature);
    call(quire_job_request_set_top_p, request.get(), options_.top_p);
    call(quire_job_request_set_ignore_eos, request.get(), 1);
    JobBatch batch(runtime_.get(), cache);
    for (int32_t idx = 0; idx < batch_size; ++idx) {
      const std::vector<int32_t> prompt = prompts_.make(prompt_tokens);
      call(quire_job_request_set_prompt_tokens, request.get(), prompt);
      batch.submit(request.get());
    }
    batch.run(interrupt_, [](size_t, const Event&, const std::string&) {});
    if (interrupt_.requested()) throw Failure(interrupt_.exit_code(), "interrupted");
    for (const JobOutcome& outcome : batch.outcomes()) {
      if (!outcome.finish.error.empty()) throw Failure(kExitFailed, "bench: " + outcome.finish.error);
    }
    return batch;
  }

  const BenchOptions& options_;
  Interrupt& interrupt_;
  Runtime runtime_;
  Model model_;
  PromptMaker prompts_;
};

int64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

// Results that do not depend on the batch size.
struct Summary {
  int64_t weight_bytes = 0;
  int64_t peak_resident_bytes = 0;
  Limits limits;
};

void print_as_json(const BenchOptions& options, const Summary& summary,
                   const std::vector<Measured>& results) {
  const Limits& limits = summary.limits;
  Json json;
  json["model"] = resolve_model_path(options.model);
  json["num_shards"] = options.model.num_shards;
  json["kv_format"] = options.kv_format;
  json["prompt_tokens"] = options.prompt_tokens;
  json["new_tokens"] = options.new_tokens;
  json["temperature"] = options.temperature;
  json["top_p"] = options.top_p;
  json["drafter"] = options.model.drafting.drafter;
  json["host_experts"] = options.model.host_experts;
  json["card_expert_bytes"] = options.model.card_expert_bytes;
  json["weight_bytes"] = summary.weight_bytes;
  json["peak_resident_bytes"] = summary.peak_resident_bytes;
  json["step_bytes"] = limits.step_bytes;
  json["token_ops"] = limits.token_ops;
  json["logit_ops"] = limits.logit_ops;
  if (limits.are_known()) {
    json["read_bytes_per_second"] = limits.read_bytes_per_second;
    json["ops_per_second"] = limits.ops_per_second;
  }
  json["results"] = Json::array();
  for (const Measured& result : results) {
    Json row = {{"batch", result.batch},
                {"prefill_tokens_per_second", result.prefill_tokens_per_second},
                {"decode_tokens_per_second", result.decode_tokens_per_second},
                {"milliseconds_per_step", 1e3 / result.steps_per_second()},
                {"step_bytes", result.step_bytes},
                {"cache_bytes", result.cache_bytes},
                {"draft_tokens", result.draft_tokens},
                {"accepted_draft_tokens", result.accepted_draft_tokens},
                {"card_expert_hits", result.card_expert_hits},
                {"card_expert_misses", result.card_expert_misses}};
    if (limits.are_known()) {
      row["prefill_share_of_limit"] = limits.share_of_prefill(result);
      row["decode_share_of_limit"] = limits.share_of_decode(result);
      row["decode_limit"] = limits.reads_limit(result) ? "reads" : "arithmetic";
    }
    json["results"].push_back(std::move(row));
  }
  print_json(json);
}

std::string percent(double share) {
  return format_number(100.0 * share, 1) + "%";
}

void print_limits(const Limits& limits) {
  if (!limits.are_known()) return;
  const auto giga = [](double value) { return format_number(value * 1e-9, 1); };
  print_line("limits of the machine: reads " + giga(static_cast<double>(limits.read_bytes_per_second)) +
             " GB/s from memory as large as the weights of one job's step (" +
             format_bytes(static_cast<double>(limits.step_bytes)) + "), arithmetic " +
             giga(static_cast<double>(limits.ops_per_second)) + " Gop/s of " +
             format_number(static_cast<double>(limits.token_ops + limits.logit_ops) * 1e-9, 3) +
             " Gop a token");
}

void print_as_text(const BenchOptions& options, const Summary& summary,
                   const std::vector<Measured>& results) {
  const Limits& limits = summary.limits;
  Table table({"batch", "prefill tok/s", "of limit", "decode tok/s", "per job", "ms/step", "of limit", "by",
               "cache"});
  for (const Measured& result : results) {
    const bool known = limits.are_known();
    table.add({std::to_string(result.batch), format_number(result.prefill_tokens_per_second, 1),
               known ? percent(limits.share_of_prefill(result)) : "-",
               format_number(result.decode_tokens_per_second, 1), format_number(result.steps_per_second(), 1),
               format_number(1e3 / result.steps_per_second(), 3),
               known ? percent(limits.share_of_decode(result)) : "-",
               !known                       ? "-"
               : limits.reads_limit(result) ? "reads"
                                            : "arithmetic",
               format_bytes(static_cast<double>(result.cache_bytes))});
  }
  print_line(resolve_model_path(options.model));
  print_line("prompts of " + std::to_string(options.prompt_tokens) + " tokens, " +
             std::to_string(options.new_tokens) + " new tokens, weights " +
             format_bytes(static_cast<double>(summary.weight_bytes)) + ", peak memory of the process " +
             format_bytes(static_cast<double>(summary.peak_resident_bytes)));
  print_limits(limits);
  print("\n" + table.text());
}

int run_bench(const BenchOptions& options, Interrupt& interrupt) {
  Bench bench(options, interrupt);
  Progress progress;
  std::vector<Measured> results;
  for (const int32_t batch_size : options.batch_sizes) {
    progress.clear();
    progress.show("measuring batch size " + std::to_string(batch_size));
    results.push_back(bench.measure(batch_size));
  }
  // Read the peak memory first: measuring the limits allocates a buffer.
  Summary summary;
  summary.weight_bytes = bench.weight_bytes();
  summary.peak_resident_bytes = peak_resident_bytes();
  summary.limits = bench.limits();
  progress.clear();
  options.model.json ? print_as_json(options, summary, results) : print_as_text(options, summary, results);
  return kExitOk;
}

constexpr const char* kBenchNotes =
    R"(Prefill is measured with prompts without common prefixes, decode with short prompts and, by
default, greedy sampling.

Examples:
  quire bench --batch 1,8 --threads 2
  quire bench --workload chat --rate 1,2,4,0 --jobs 64 --svg chat.svg
  quire bench --synthetic llama-3.1-8b --format exl2 --bits 4.0 --device cuda:0
)";

// Adds the options for random weights in the shape of a model, which measure its speed without its files.
void add_synthetic_options(CLI::App& app, SyntheticChoice& choice) {
  CLI::Option* const shape =
      app.add_option("--synthetic", choice.shape, "Random weights in the shape of a model, in memory")
          ->type_name("NAME")
          ->excludes(app.get_option("--model"))
          ->check(CLI::IsMember({"llama-3.2-1b", "llama-3.1-8b", "llama-3.1-70b", "qwen3-30b-a3b",
                                 "qwen3.5-2b", "qwen3.5-9b"}));
  app.add_option("--format", choice.format, "Format of the random weights")
      ->needs(shape)
      ->check(CLI::IsMember({"exl2", "exl3", "gptq", "fp8", "gguf", "mxfp4", "f16"}))
      ->capture_default_str();
  app.add_option("--bits", choice.bits, "Bits per weight of exl2, on average, or of exl3")
      ->needs(shape)
      ->check(CLI::Range(2.0, 8.0))
      ->capture_default_str();
  app.add_option("--head-bits", choice.head_bits, "Bits per weight of the head of exl2 or exl3")
      ->needs(shape)
      ->check(CLI::IsMember({2, 3, 4, 5, 6, 8}))
      ->capture_default_str();
  app.add_option("--layers", choice.num_layers, "Use only the first N layers of the shape")
      ->needs(shape)
      ->check(CLI::Range(1, 1024));
}

// Returns the model path that requests these weights.
std::string synthetic_path(const SyntheticChoice& choice) {
  std::ostringstream path;
  path << "synthetic:" << choice.shape << ",format=" << choice.format;
  if (choice.format == "exl2" || choice.format == "exl3")
    path << ",bits=" << choice.bits << ",head_bits=" << choice.head_bits;
  if (choice.num_layers != 0) path << ",layers=" << choice.num_layers;
  return path.str();
}

}  // namespace

Command add_bench(CLI::App& root) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* app = root.add_subcommand("bench", "Measure prefill and decode speed, and memory");
  app->footer(kBenchNotes);
  add_runtime_options(*app, options->model);
  app->add_option("--batch", options->batch_sizes, "Batch sizes, separated by commas")
      ->type_name("B,...")
      ->delimiter(',')
      ->check(in_range(1, 4096))
      ->capture_default_str();
  app->add_option("--prompt-tokens", options->prompt_tokens, "Tokens of each prompt")
      ->type_name("N")
      ->check(in_range(1, 1 << 20))
      ->capture_default_str();
  app->add_option("--new-tokens", options->new_tokens, "Tokens generated by each job")
      ->type_name("N")
      ->check(in_range(2, 1 << 20))
      ->capture_default_str();
  app->add_option("--temperature", options->temperature, "Sampling temperature; 0 is greedy")
      ->type_name("T")
      ->capture_default_str();
  app->add_option("--top-p", options->top_p, "Sampling top-p")->type_name("P")->capture_default_str();
  add_kv_format_option(*app, options->kv_format);
  options->model.drafting.drafter = "none";
  add_drafting_options(*app, options->model.drafting);
  add_synthetic_options(*app, options->synthetic);
  add_workload_options(*app, options->workload);
  return {app, [options](Interrupt& interrupt) {
            if (!options->synthetic.shape.empty()) options->model.path = synthetic_path(options->synthetic);
            if (!options->workload.name.empty())
              return run_workload_bench(options->model, kv_format_of(options->kv_format), options->workload,
                                        interrupt);
            return run_bench(*options, interrupt);
          }};
}

}  // namespace quire::cli
