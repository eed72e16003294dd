// Measures speculative decoding: the same jobs without drafts and with them, in turns, so that a busy machine
// disturbs both alike. Usage:
// drafting_bench MODEL DEVICE PROMPT NEW_TOKENS MAX_DRAFTS JOBS DRAFTERS [TEMPERATURE [TURNS]]
//
// MODEL is a path, or "synthetic:llama-3.1-8b,format=exl2,bits=4.0,head_bits=6" for random weights. DEVICE is
// cpu or cuda:0, with the plug-in in QUIRE_BACKEND_DIR. PROMPT is a text file, or a number of random tokens.
// JOBS are numbers of jobs, and DRAFTERS are names, both separated by commas: "auto", "ngram", "mtp", the
// path of a draft network (one of the last two at most), or a number such as 0.8. That is a drafter which
// proposes the next token of the answer without drafts with this probability. Measured times decide how many
// drafts it has. But the engine does not limit the number of its jobs, as it does for the automatic drafter.
//
// Prints a row for each pair of a number of jobs and a drafter. Only steps in which all jobs generate count.
// "full" is the median time of steps that verify at least nine tenths of the possible drafts, and "full/one"
// its ratio to the median without drafts. Two host times of a step are printed: "engine" outside the
// executor, where a draft network counts, and "issue" in the calls that start its work, where a CPU computes.
// "host+" is their sum with drafts minus that without; with drafts it is taken from full steps, if there are
// any. Exits with 1 if any answer differs.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <numeric>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "core/engine/loop/engine_thread.h"
#include "core/engine/model/device_registry.h"
#include "core/engine/model/model_cache.h"
#include "core/engine/model/tokenizer_codec.h"
#include "core/models/drafting_executor.h"
#include "tests/bench/recorded_drafter.h"
#include "tests/bench/timed_executor.h"

namespace quire::bench {
namespace {

struct Options {
  std::string model;
  std::string device;
  std::string prompt;
  int32_t new_tokens = 0;
  int32_t max_drafts = 0;
  std::vector<int32_t> jobs;
  std::vector<std::string> drafters;
  float temperature = 0.0F;
  int32_t num_turns = 3;
};

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  return parts;
}

// Returns the number that a text is; nothing if it is none.
std::optional<double> number_of(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  return text.empty() || *end != '\0' ? std::nullopt : std::optional(number);
}

// Throws ErrorCode::invalid_argument unless the text is a number of things.
int32_t count_of(const std::string& text, const char* things) {
  const double number = number_of(text).value_or(0.0);
  if (number < 1.0 || number > 1e6 || number != std::floor(number))
    throw Error(ErrorCode::invalid_argument, "\"{}\" is not a number of {}", text, things);
  return static_cast<int32_t>(number);
}

bool is_network(const std::string& drafter) {
  return drafter != "auto" && drafter != "ngram" && !number_of(drafter);
}

double median(std::vector<double> values) {
  if (values.empty()) return 0.0;
  std::sort(values.begin(), values.end());
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2.0;
}

// One step of an engine. Times are in seconds.
struct Step {
  TimedExecutor::Pass pass;
  double time = 0.0;  // since the end of the step before
  double issue = 0.0;
  double wait = 0.0;
  int64_t num_tokens = 0;  // of all answers
  int64_t num_drafts = 0;
  int64_t num_accepted = 0;

  double engine() const { return time - issue - wait; }
};

// The steps of a run in which all jobs generate.
struct Run {
  std::vector<Step> steps;
  std::vector<TokenIds> answers;

  void add(const Run& other) { steps.insert(steps.end(), other.steps.begin(), other.steps.end()); }
  template <typename Value>
  double sum(const Value& value) const {
    return std::accumulate(steps.begin(), steps.end(), 0.0,
                           [&](double total, const Step& step) { return total + value(step); });
  }
  template <typename Value>
  double mean(const Value& value) const {
    return steps.empty() ? 0.0 : sum(value) / static_cast<double>(steps.size());
  }
  double speed() const {
    const double seconds = sum([](const Step& step) { return step.time; });
    return seconds > 0.0
               ? sum([](const Step& step) { return static_cast<double>(step.num_tokens); }) / seconds
               : 0.0;
  }
  double median_time() const {
    std::vector<double> times;
    for (const Step& step : steps) times.push_back(step.time);
    return median(std::move(times));
  }
};

// All measured runs of one cache.
struct Arm {
  Run all;
  std::vector<double> speeds;

  // Adds a run and returns its answers.
  std::vector<TokenIds> add(Run run) {
    speeds.push_back(run.speed());
    all.add(run);
    return std::move(run.answers);
  }
};

struct Cache {
  std::shared_ptr<Engine> engine;
  const TimedExecutor* executor = nullptr;  // of the engine
};

class Bench {
 public:
  explicit Bench(const Options& options)
      : options_(options), devices_(find_backends(), options.device, {}), model_(load()) {}

  // Returns whether all answers were the same.
  bool measure(int32_t num_jobs);

 private:
  std::shared_ptr<const Model> load();
  TokenId num_tokens() const;
  std::vector<TokenIds> prompts(int32_t num_jobs) const;
  Cache make_cache(const EngineOptions& engine) const;
  EngineOptions engine_of(const std::string& drafter) const;
  Run run(const Cache& cache) const;
  void print(const std::string& drafter, const Arm& without, const Arm& with) const;

  const Options options_;
  DeviceRegistry devices_;
  const std::shared_ptr<const Model> model_;
  std::shared_ptr<Recording> recording_;  // of the present number of jobs
};

std::shared_ptr<const Model> Bench::load() {
  ModelOptions load;
  load.source = open_model_source(posix_file_system(), options_.model);
  load.devices = {devices_.open(options_.device)};
  load.num_helpers = static_cast<int32_t>(std::clamp(std::thread::hardware_concurrency(), 1U, 8U)) - 1;
  const auto network = std::find_if(options_.drafters.begin(), options_.drafters.end(), is_network);
  if (network != options_.drafters.end())
    load.drafter =
        std::make_shared<const DraftSource>(open_draft_source(posix_file_system(), *network, load.source));
  return Model::load(load);
}

TokenId Bench::num_tokens() const {
  const TokenId size = model_->shape().vocab_size;
  return model_->shared_tokenizer() ? std::min(size, static_cast<TokenId>(model_->tokenizer().vocab_size()))
                                    : size;
}

// Returns prompts that differ: random ones, or the text without its next i tokens after the first.
std::vector<TokenIds> Bench::prompts(int32_t num_jobs) const {
  std::vector<TokenIds> prompts;
  TokenIds text;
  const bool is_random = number_of(options_.prompt).has_value();
  if (!is_random) {
    std::stringstream words;
    words << std::ifstream(options_.prompt).rdbuf();
    text = model_->tokenizer().encode(words.str());
    if (static_cast<int64_t>(text.size()) < num_jobs + 2)
      throw Error(ErrorCode::invalid_argument, "{}: too few tokens for {} jobs", options_.prompt, num_jobs);
  }
  for (int32_t job = 0; job < num_jobs; ++job) {
    TokenIds prompt = text;
    if (is_random) {
      for (int32_t i = 0; i < count_of(options_.prompt, "tokens"); ++i) {
        const uint64_t place = static_cast<uint64_t>(job) << 32 | static_cast<uint64_t>(i);
        prompt.push_back(static_cast<TokenId>(random_bits(7, place) % static_cast<uint64_t>(num_tokens())));
      }
    } else {
      prompt.erase(prompt.begin() + 1, prompt.begin() + 1 + job);
    }
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

// Creates a cache with the sizes that create_model_cache chooses, whose executor is measured.
Cache Bench::make_cache(const EngineOptions& engine) const {
  const auto num_jobs = static_cast<int32_t>(recording_->prompts.size());
  const auto longest = static_cast<int64_t>(recording_->prompts.front().size()) + options_.new_tokens;
  ModelCacheOptions options;
  options.max_batch_size = num_jobs;
  options.max_seq_len = longest;
  options.max_tokens =
      (longest + options.page_tokens - 1) / options.page_tokens * options.page_tokens * num_jobs;
  const std::shared_ptr<Runtime> runtime = Runtime::create({});
  TransformerExecutorOptions sizes = executor_options(model_->config(), options);
  sizes.threads = &runtime->threads();
  auto executor = std::make_unique<TimedExecutor>(make_executor(model_->transformer(), sizes, nullptr));
  Cache cache;
  cache.executor = executor.get();
  EngineParts parts;
  parts.executor = std::move(executor);
  parts.devices = {model_->transformer()->devices().front()->name()};
  parts.codec = std::make_shared<TokenizerCodec>(model_->shared_tokenizer());
  parts.end_tokens = model_->config().eos_ids;
  parts.num_tokens = num_tokens();
  parts.max_seq_len = sizes.max_seq_len;
  parts.model = model_;
  EngineOptions settings = engine;
  settings.max_running_jobs = num_jobs;
  settings.max_chunk_tokens = options.max_chunk_tokens;
  settings.max_queued_jobs = num_jobs;
  settings.step_stretch = 0.0;  // all jobs begin soon
  settings.start_thread = false;
  cache.engine = Engine::create(runtime, std::move(parts), settings);
  return cache;
}

EngineOptions Bench::engine_of(const std::string& drafter) const {
  EngineOptions engine;
  engine.drafting.max_drafts = options_.max_drafts;
  if (const auto share = number_of(drafter))
    engine.drafter =
        std::make_shared<RecordedDrafter>(recording_, RecordedDrafter::Mistakes{*share, num_tokens()});
  else if (drafter == "ngram")
    engine.drafting.drafter = DrafterKind::ngram;
  else if (is_network(drafter))
    engine.drafting.drafter = DrafterKind::network;
  return engine;
}

TokenIds answer_of(Job& job) {
  TokenIds tokens;
  while (const auto event = job.poll(Duration{0}))
    tokens.insert(tokens.end(), event->token_ids.begin(), event->token_ids.end());
  return tokens;
}

// Runs all jobs to their end. Their pages and answers are not kept, so each run does the same.
Run Bench::run(const Cache& cache) const {
  std::vector<std::shared_ptr<Job>> jobs;
  for (const TokenIds& prompt : recording_->prompts) {
    JobRequest request;
    request.prompt = prompt;
    request.max_new_tokens = options_.new_tokens;
    request.ignore_end_tokens = true;
    request.sampling.temperature = options_.temperature;
    request.sampling.seed = jobs.size() + 1;
    request.publish_pages = false;
    jobs.push_back(cache.engine->submit(std::move(request)));
  }
  Run run;
  run.steps.reserve(static_cast<size_t>(options_.new_tokens));
  CacheStats before = cache.engine->stats();
  TimedExecutor::Times times = cache.executor->times();
  auto end = std::chrono::steady_clock::now();
  while (cache.engine->thread().run_once() == StepOutcome::advanced) {
    const CacheStats after = cache.engine->stats();
    const auto now = std::chrono::steady_clock::now();
    Step step;
    step.pass = cache.executor->last_pass();
    step.time = in_seconds(now - end);
    step.issue = cache.executor->times().issue - times.issue;
    step.wait = cache.executor->times().wait - times.wait;
    step.num_tokens = static_cast<int64_t>(after.new_tokens - before.new_tokens);
    step.num_drafts = static_cast<int64_t>(after.draft_tokens - before.draft_tokens);
    step.num_accepted = static_cast<int64_t>(after.draft_tokens_accepted - before.draft_tokens_accepted);
    if (step.pass.generates && step.pass.num_sequences == static_cast<int32_t>(jobs.size()))
      run.steps.push_back(step);
    before = after;
    times = cache.executor->times();
    end = now;
  }
  for (const auto& job : jobs) {
    run.answers.push_back(answer_of(*job));
    if (static_cast<int32_t>(run.answers.back().size()) != options_.new_tokens)
      throw Error(ErrorCode::internal, "a job ended early: {}", job->explain());
  }
  return run;
}

void print_title() {
  std::printf("%14s | %-26s | %-20s | %-35s | %s\n", "", "tokens a second", "of a job in a step",
              "milliseconds of a step", "microseconds of the host in a step");
  std::printf("%5s %-8s | %9s %9s %6s | %6s %6s %6s | %8s %8s %8s %8s | %8s %8s %8s %8s %8s\n", "jobs",
              "drafter", "without", "with", "ratio", "tokens", "drafts", "right", "without", "with", "full",
              "full/one", "host+", "engine", "with", "issue", "with");
}

void Bench::print(const std::string& drafter, const Arm& without, const Arm& with) const {
  const auto num_jobs = static_cast<int32_t>(recording_->prompts.size());
  const auto engine = [](const Step& step) { return step.engine() * 1e6; };
  const auto issue = [](const Step& step) { return step.issue * 1e6; };
  const auto time = [](const Step& step) { return step.time * 1e3; };
  const double num_drafts =
      with.all.sum([](const Step& step) { return static_cast<double>(step.num_drafts); });
  const double num_accepted =
      with.all.sum([](const Step& step) { return static_cast<double>(step.num_accepted); });
  Run full;
  for (const Step& step : with.all.steps)
    if (10 * step.num_drafts >= 9 * int64_t{num_jobs} * options_.max_drafts) full.steps.push_back(step);
  const Run& host = full.steps.empty() ? with.all : full;
  std::printf(
      "%5d %-8s | %9.1f %9.1f %6.3f | %6.2f %6.2f %6.2f | %8.3f %8.3f %8.3f %8.3f | %8.1f %8.1f %8.1f %8.1f "
      "%8.1f\n",
      num_jobs, drafter.c_str(), median(without.speeds), median(with.speeds),
      median(with.speeds) / median(without.speeds),
      with.all.mean([](const Step& step) { return static_cast<double>(step.num_tokens); }) / num_jobs,
      with.all.mean([](const Step& step) { return static_cast<double>(step.num_drafts); }) / num_jobs,
      num_drafts > 0.0 ? num_accepted / num_drafts : 0.0, without.all.mean(time), with.all.mean(time),
      full.median_time() * 1e3, full.median_time() / without.all.median_time(),
      host.mean(engine) + host.mean(issue) - without.all.mean(engine) - without.all.mean(issue),
      without.all.mean(engine), host.mean(engine), without.all.mean(issue), host.mean(issue));
  std::fflush(stdout);
}

bool Bench::measure(int32_t num_jobs) {
  recording_ = std::make_shared<Recording>();
  recording_->prompts = prompts(num_jobs);
  EngineOptions none;
  none.drafting.drafter = DrafterKind::none;
  const Cache plain = make_cache(none);
  recording_->answers = run(plain).answers;
  bool is_same = true;
  for (const std::string& drafter : options_.drafters) {
    const Cache drafting = make_cache(engine_of(drafter));
    is_same = run(drafting).answers == recording_->answers && is_same;  // warms up and measures steps
    Arm without;
    Arm with;
    for (int32_t turn = 0; turn < options_.num_turns; ++turn) {
      is_same = without.add(run(plain)) == recording_->answers && is_same;
      is_same = with.add(run(drafting)) == recording_->answers && is_same;
    }
    print(drafter, without, with);
    if (!is_same) std::printf("the answers differ\n");
  }
  return is_same;
}

Options read_options(int argc, char** argv) {
  Options options;
  options.model = argv[1];
  options.device = argv[2];
  options.prompt = argv[3];
  options.new_tokens = count_of(argv[4], "tokens");
  options.max_drafts = count_of(argv[5], "drafts");
  for (const std::string& num_jobs : split(argv[6])) options.jobs.push_back(count_of(num_jobs, "jobs"));
  options.drafters = split(argv[7]);
  if (argc > 8) options.temperature = std::strtof(argv[8], nullptr);
  if (argc > 9) options.num_turns = count_of(argv[9], "turns");
  return options;
}

int run_bench(const Options& options) {
  Bench bench(options);
  print_title();
  bool is_same = true;
  for (const int32_t num_jobs : options.jobs) is_same = bench.measure(num_jobs) && is_same;
  return is_same ? 0 : 1;
}

}  // namespace
}  // namespace quire::bench

int main(int argc, char** argv) {
  using namespace quire::bench;
  if (argc < 8) {
    std::fprintf(stderr,
                 "usage: drafting_bench MODEL DEVICE PROMPT NEW_TOKENS MAX_DRAFTS JOBS DRAFTERS [TEMPERATURE "
                 "[TURNS]]\n");
    return 2;
  }
  try {
    return run_bench(read_options(argc, argv));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "drafting_bench: %s\n", error.what());
    return 2;
  }
}
