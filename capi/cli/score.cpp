// quire score: measures how likely a text is, token by token.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <string>

#include <quire/experimental.h>

#include "capi/cli/commands.h"
#include "capi/cli/failure.h"
#include "capi/cli/input.h"
#include "capi/cli/tensor_file.h"
#include "capi/cli/terminal.h"

namespace quire::cli {
namespace {

struct ScoreOptions {
  ModelChoice model;
  std::string text_file;
  std::string ids_file;
  int64_t limit = 0;   // 0 means all
  int64_t window = 0;  // 0 means the model's context
  std::string logits_file;
  std::string draft_logits_file;
  std::string kv_format = "f16";
  bool no_special = false;
  bool parse_special = false;
  bool summary = false;
};

struct Score {
  std::string kv_format;
  std::vector<int32_t> tokens;
  std::vector<float> log_probs;  // NaN at the start of each window
  int64_t window = 0;
  double seconds = 0;

  int64_t num_windows() const { return (static_cast<int64_t>(tokens.size()) + window - 1) / window; }
  int64_t num_predictions() const { return static_cast<int64_t>(tokens.size()) - num_windows(); }
  double mean_log_prob() const {
    double sum = 0;
    for (const float value : log_probs) sum += std::isnan(value) ? 0.0 : double{value};
    return sum / static_cast<double>(num_predictions());
  }
  double perplexity() const { return std::exp(-mean_log_prob()); }
};

// Number of tokens of short windows that are submitted together, so that the scheduler can batch them.
constexpr int64_t kTokensAtOnce = 2048;

std::vector<int32_t> read_tokens(const ScoreOptions& options, quire_model* model,
                                 const Interrupt& interrupt) {
  const bool from_ids = !options.ids_file.empty();
  const std::string input = read_input(from_ids ? options.ids_file : options.text_file, interrupt);
  auto tokens = from_ids ? parse_ids(input, options.ids_file)
                         : encode(model, input, !options.no_special, options.parse_special);
  if (options.limit > 0 && tokens.size() > static_cast<size_t>(options.limit)) {
    tokens.resize(static_cast<size_t>(options.limit));
  }
  if (tokens.size() < 2) {
    throw Failure(kExitFailed,
                  "score: " + std::to_string(tokens.size()) + " tokens predict nothing; give at least 2");
  }
  return tokens;
}

int64_t choose_window(const ScoreOptions& options, quire_model* model, size_t num_tokens) {
  const int64_t longest = options.window > 0 ? options.window : call(quire_model_max_context, model);
  return std::min(longest, static_cast<int64_t>(num_tokens));
}

Cache open_cache(quire_model* model, int64_t window, const ScoreOptions& score) {
  const CacheOptions options = choose_cache(score.model);
  constexpr int64_t kPageTokens = 256;
  const int64_t window_pages = (window + kPageTokens - 1) / kPageTokens;
  const int64_t windows_at_once = std::max<int64_t>(1, kTokensAtOnce / window);
  call(quire_cache_options_set_page_tokens, options.get(), static_cast<int32_t>(kPageTokens));
  call(quire_cache_options_set_max_tokens, options.get(), window_pages * kPageTokens * windows_at_once);
  call(quire_cache_options_set_max_seq_len, options.get(), window);
  call(quire_cache_options_set_kv_format, options.get(), kv_format_of(score.kv_format));
  return Cache(call(quire_cache_create, model, options.get()));
}

Request request_of(const int32_t* tokens, size_t num_tokens) {
  Request request(call(quire_job_request_create));
  call(quire_job_request_set_prompt_tokens, request.get(), tokens, num_tokens);
  return request;
}

void compute(Score& score, quire_cache* cache, Interrupt& interrupt) {
  const auto start = std::chrono::steady_clock::now();
  Progress progress;
  const size_t total = score.tokens.size();
  const auto stride = static_cast<size_t>(score.window * std::max<int64_t>(1, kTokensAtOnce / score.window));
  score.log_probs.resize(total);
  for (size_t done = 0; done < total; done += stride) {
    const size_t count = std::min(stride, total - done);
    const Request request = request_of(score.tokens.data() + done, count);
    call(quire_cache_score, cache, request.get(), score.window, int64_t{QUIRE_WAIT_FOREVER},
         interrupt.cancel(), score.log_probs.data() + done, count);
    progress.show("scored " + std::to_string(done + count) + " of " + std::to_string(total) + " tokens");
  }
  score.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void write_logits(const Score& score, const std::string& path, quire_cache* cache, Interrupt& interrupt) {
  const auto begin = static_cast<size_t>((score.num_windows() - 1) * score.window);
  const size_t num_rows = score.tokens.size() - begin;
  const auto num_columns = static_cast<size_t>(call(quire_cache_vocab_size, cache));
  std::vector<float> logits(num_rows * num_columns);
  const Request request = request_of(score.tokens.data() + begin, num_rows);
  call(quire_cache_logits, cache, request.get(), int64_t{QUIRE_WAIT_FOREVER}, interrupt.cancel(),
       logits.data(), logits.size());
  write_tensor_file(path, "logits", static_cast<int64_t>(num_rows), static_cast<int64_t>(num_columns),
                    logits);
}

void write_draft_logits(const Score& score, const std::string& path, quire_model* model,
                        Interrupt& interrupt) {
  const auto num_columns = static_cast<size_t>(call(quire_model_drafter_vocab_size, model));
  std::vector<float> logits(score.tokens.size() * num_columns);
  const auto size = static_cast<size_t>(call(quire_model_drafter_logits, model, score.tokens.data(),
                                             score.tokens.size(), int64_t{QUIRE_WAIT_FOREVER},
                                             interrupt.cancel(), logits.data(), logits.size()));
  logits.resize(size);
  write_tensor_file(path, "logits", static_cast<int64_t>(size / num_columns),
                    static_cast<int64_t>(num_columns), logits);
}

void print_as_json(const ScoreOptions& options, const Score& score) {
  Json json;
  json["model"] = resolve_model_path(options.model);
  json["num_tokens"] = score.tokens.size();
  json["num_predictions"] = score.num_predictions();
  json["window"] = score.window;
  json["kv_format"] = score.kv_format;
  json["num_windows"] = score.num_windows();
  json["mean_log_prob"] = score.mean_log_prob();
  json["perplexity"] = score.perplexity();
  json["seconds"] = score.seconds;
  if (!options.summary) {
    json["tokens"] = score.tokens;
    json["log_probs"] = score.log_probs;  // NaN becomes null
  }
  print_json(json);
}

void print_tokens(const Score& score, quire_model* model) {
  const bool has_text = tokenizer_size(model) > 0;
  std::string lines;
  for (size_t idx = 0; idx < score.tokens.size(); ++idx) {
    const std::string text =
        has_text ? text_of(quire_model_decode, model, &score.tokens[idx], size_t{1}, int32_t{0})
                 : std::string();
    const float value = score.log_probs[idx];
    lines += std::to_string(idx) + "\t" + std::to_string(score.tokens[idx]) + "\t" +
             (std::isnan(value) ? "-" : format_number(value, 6)) + "\t" + to_json_line(text) + "\n";
    if (lines.size() < (1U << 16)) continue;
    print(lines);
    lines.clear();
  }
  print(lines);
}

int score_text(const ScoreOptions& options, Interrupt& interrupt) {
  const Runtime runtime = open_runtime(options.model);
  const Model model = load_model(runtime.get(), options.model, QUIRE_MODEL_SCOPE_FULL, interrupt);
  Score score;
  score.tokens = read_tokens(options, model.get(), interrupt);
  score.window = choose_window(options, model.get(), score.tokens.size());
  const Cache cache = open_cache(model.get(), score.window, options);
  score.kv_format = kv_format_name(call(quire_cache_kv_format, cache.get()));
  compute(score, cache.get(), interrupt);
  if (!options.logits_file.empty()) {
    write_logits(score, options.logits_file, cache.get(), interrupt);
  }
  if (!options.draft_logits_file.empty()) {
    write_draft_logits(score, options.draft_logits_file, model.get(), interrupt);
  }
  if (options.model.json) {
    print_as_json(options, score);
    return kExitOk;
  }
  if (!options.summary) print_tokens(score, model.get());
  print_line("tokens      " + std::to_string(score.tokens.size()) + " in " +
             std::to_string(score.num_windows()) + " windows of " + std::to_string(score.window) + ", " +
             format_number(score.seconds, 1) + " s");
  print_line("perplexity  " + format_number(score.perplexity(), 4));
  return kExitOk;
}

constexpr const char* kScoreNotes =
    R"(Prints a line for each token: position, id, natural logarithm of its probability ("-" at the
start of a window), text; then the perplexity over all predictions.

Examples:
  quire score --text chapter.txt --summary
  quire score --ids ids.json --limit 40960 --window 512 --json --summary
  quire score --ids ids.json --drafter mtp --draft-logits draft.safetensors --summary
)";

// Throws for options that do not go together.
void require_fitting_options(const CLI::App& app, const ScoreOptions& options) {
  if (app.count("--text") + app.count("--ids") != 1) {
    throw Failure(kExitUsage, "score: give either --text FILE or --ids FILE");
  }
  if (options.draft_logits_file.empty()) {
    if (app.count("--drafter") == 0) return;
    throw Failure(kExitUsage, "--drafter: scores need no drafts; leave it out, or give --draft-logits FILE");
  }
  if (app.count("--ids") == 0) {
    throw Failure(kExitUsage, "--draft-logits: needs the tokens as --ids FILE");
  }
  if (!names_network(options.model.drafting)) {
    throw Failure(kExitUsage,
                  "--draft-logits: needs a draft network; give --drafter mtp, or --drafter with the path or "
                  "hub name of one");
  }
}

}  // namespace

Command add_score(CLI::App& root) {
  auto options = std::make_shared<ScoreOptions>();
  options->model.drafting.drafter = "none";  // scores need no drafts
  CLI::App* app = root.add_subcommand("score", "Measure how likely a text is, token by token");
  app->footer(kScoreNotes);
  add_runtime_options(*app, options->model);
  app->add_option("--text", options->text_file, "File with the text; - is standard input")->type_name("FILE");
  app->add_option("--ids", options->ids_file, "File with a JSON list of token ids; - is standard input")
      ->type_name("FILE");
  app->add_option("--limit", options->limit, "Score only the first N tokens")
      ->type_name("N")
      ->check(in_range(1, kMaxTokens));
  app->add_option("--window", options->window,
                  "Score separate windows of W tokens (default: the model's context)")
      ->type_name("W")
      ->check(in_range(1, kMaxTokens));
  app->add_option(
         "--logits", options->logits_file,
         "Write the raw logits of the last window as safetensors: F32 \"logits\" [tokens, vocabulary]")
      ->type_name("FILE");
  add_drafter_option(*app, options->model.drafting)
      ->type_name("mtp|DIR")
      ->default_str("")
      ->description("Draft network of --draft-logits: mtp, or its path or hub name");
  app->add_option("--draft-logits", options->draft_logits_file,
                  "Write the raw logits of the draft network for all tokens as safetensors: F32 \"logits\" "
                  "[rows, columns]; needs --ids and --drafter")
      ->type_name("FILE");
  add_kv_format_option(*app, options->kv_format);
  app->add_flag("--summary", options->summary, "Leave the tokens out");
  app->add_flag("--no-special", options->no_special, "Do not put the model's own tokens around the text");
  app->add_flag("--parse-special", options->parse_special,
                "Read the text of special tokens in the text as those tokens");
  return {app, [app, options](Interrupt& interrupt) {
            require_fitting_options(*app, *options);
            return score_text(*options, interrupt);
          }};
}

}  // namespace quire::cli
