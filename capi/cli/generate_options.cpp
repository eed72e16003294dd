#include "capi/cli/generate_options.h"

#include <charconv>
#include <cstdlib>
#include <map>

#include "capi/cli/failure.h"

namespace quire::cli {
namespace {

void add_prompt_options(CLI::App& app, GenerateOptions& options) {
  app.add_option("-p,--prompt", options.prompt, "Text to continue")->type_name("TEXT");
  app.add_option("-f,--prompt-file", options.prompt_file,
                 "File with the text to continue; - is standard input")
      ->type_name("FILE");
  app.add_option("--negative-prompt", options.negative_prompt,
                 "Text to lead away from, with --guidance-scale")
      ->type_name("TEXT");
  app.add_option("--guidance-scale", options.guidance_scale,
                 "Strength of guidance: tokens are sampled from negative + X * (positive - negative)")
      ->type_name("X");
  app.add_flag("--no-special", options.no_special, "Do not put the model's own tokens around the prompts");
  app.add_flag("--parse-special", options.parse_special,
               "Read the text of special tokens in the prompt as those tokens");
  app.add_option("-j,--jobs", options.num_jobs, "Run N jobs at once, with the seeds S, S+1, ...")
      ->type_name("N")
      ->check(in_range(1, 4096))
      ->capture_default_str();
  app.add_option("--context", options.context, "Maximum tokens of one job (default: as many as it needs)")
      ->type_name("N");
  app.add_option("--min-cache-tokens", options.min_cache_tokens,
                 "Tokens that the cache has memory for at first; it grows as jobs need more (default: all)")
      ->type_name("N");
  app.add_option("--prefix-directory", options.prefix_directory,
                 "Directory that keeps computed prompts for later runs, up to 4 GiB")
      ->type_name("DIR");
  app.add_flag("-q,--quiet", options.quiet, "Do not print the speed at the end");
}

void add_stop_options(CLI::App& app, GenerateOptions& options) {
  const std::string group = "Length and stops";
  app.add_option("-n,--max-new-tokens", options.max_new_tokens, "Maximum tokens to generate")
      ->type_name("N")
      ->capture_default_str()
      ->group(group);
  app.add_option("--min-new-tokens", options.min_new_tokens, "Tokens before which no stop token is sampled")
      ->type_name("N")
      ->group(group);
  app.add_option("--stop", options.stop_texts, "Text that ends the job and is not printed; may be repeated")
      ->type_name("TEXT")
      ->allow_extra_args(false)
      ->group(group);
  app.add_option("--stop-token", options.stop_tokens, "Token id that ends the job; may be repeated")
      ->type_name("ID")
      ->allow_extra_args(false)
      ->group(group);
  app.add_flag("--ignore-eos", options.ignore_eos, "Continue after the model's end-of-sequence tokens")
      ->group(group);
}

void add_penalty_options(CLI::App& app, GenerateOptions& options) {
  const std::string group = "Sampling";
  const auto add = [&](const char* name, auto& value, const char* help, const char* type) {
    app.add_option(name, value, help)->type_name(type)->group(group);
  };
  add("--repetition-penalty", options.repetition_penalty,
      "Divisor of positive logits of seen tokens, default 1", "X");
  add("--frequency-penalty", options.frequency_penalty, "Subtracted for each occurrence, default 0", "X");
  add("--presence-penalty", options.presence_penalty, "Subtracted once if seen, default 0", "X");
  add("--penalty-range", options.penalty_range, "Last tokens that count as seen; -1, the default, means all",
      "N");
  add("--penalty-decay", options.penalty_decay, "Older tokens over which penalties fade, default 0", "N");
}

void add_sampling_options(CLI::App& app, GenerateOptions& options) {
  const std::string group = "Sampling";
  const auto add = [&](const char* name, auto& value, const char* help, const char* type) {
    return app.add_option(name, value, help)->type_name(type)->group(group);
  };
  add("-s,--seed", options.seed,
      "Seed of sampling; the same seed gives the same tokens (default: a random one)", "S");
  add("-t,--temperature", options.temperature,
      "Sampling temperature; 0 takes the likeliest token; default 1, unless the model's authors recommend "
      "sampling",
      "X");
  add("--top-k", options.top_k, "Keep the k likeliest tokens; 0, the default, means all", "K");
  add("--top-p", options.top_p, "Keep the likeliest tokens that together have probability P; default 1", "P");
  add("--min-p", options.min_p, "Keep tokens at least P times as likely as the likeliest; default 0", "P");
  add_penalty_options(app, options);
  add("--ban-token", options.banned_tokens, "Token id that is never sampled; may be repeated", "ID")
      ->allow_extra_args(false);
  add("--logit-bias", options.logit_biases, "Added to the logit of one token; may be repeated", "ID=BIAS")
      ->allow_extra_args(false);
  app.add_flag("--log-probs", options.log_probs, "With --json: the log-probability of each token")
      ->group(group);
}

void add_json_options(CLI::App& app, GenerateOptions& options) {
  const std::string group = "JSON";
  const std::map<std::string, int32_t> orders = {{"schema", QUIRE_JSON_ORDER_SCHEMA},
                                                 {"any", QUIRE_JSON_ORDER_ANY}};
  const std::map<std::string, int32_t> spaces = {{"spaced", QUIRE_JSON_SPACE_SPACED},
                                                 {"compact", QUIRE_JSON_SPACE_COMPACT},
                                                 {"printed", QUIRE_JSON_SPACE_PRINTED}};
  app.add_option("--schema", options.schema_file, "File with a JSON Schema that each answer must match")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--json-order", options.json.order, "Order of members: schema, the default, or any")
      ->type_name("ORDER")
      ->transform(CLI::CheckedTransformer(orders).description(""))
      ->group(group);
  app.add_flag(
         "--json-open", options.json.open,
         "Allow members that a schema neither names nor forbids; without it only if it opens the object")
      ->group(group);
  app.add_flag("--json-any-integers", options.json.any_integers,
               "Allow spellings of integers like 3.0 and 1e3")
      ->group(group);
  app.add_option(
         "--json-space", options.json.space,
         "White space: spaced, the default ({\"a\": 1, \"b\": 2}), compact, or printed (any printer's)")
      ->type_name("FORM")
      ->transform(CLI::CheckedTransformer(spaces).description(""))
      ->group(group);
}

// Calls a setter. If the library refuses the value, the error names the flag, since that is what the user
// wrote.
template <typename Setter, typename... Args>
void set(const char* flag, Setter* setter, quire_job_request* request, Args... args) {
  try {
    call(setter, request, args...);
  } catch (const Error& error) {
    throw Failure(error.code() == QUIRE_ERROR_INVALID_ARGUMENT ? kExitUsage : kExitFailed,
                  std::string(flag) + ": " + error.what());
  }
}

template <typename Setter, typename T>
void set_if_given(const char* flag, Setter* setter, quire_job_request* request,
                  const std::optional<T>& value) {
  if (value) set(flag, setter, request, *value);
}

void add_logit_bias(quire_job_request* request, const std::string& text) {
  const char* end = text.data() + text.size();
  int32_t token = 0;
  const auto [separator, problem] = std::from_chars(text.data(), end, token);
  double bias = 0;
  bool sound = problem == std::errc() && separator != end && *separator == '=';
  if (sound) {
    const auto parsed = std::from_chars(separator + 1, end, bias);
    sound = parsed.ec == std::errc() && parsed.ptr == end;
  }
  if (!sound) throw Failure(kExitUsage, "--logit-bias: \"" + text + "\" is not ID=BIAS");
  set("--logit-bias", quire_job_request_add_logit_bias, request, token, bias);
}

void set_stops(quire_job_request* request, const GenerateOptions& options) {
  set("--max-new-tokens", quire_job_request_set_max_new_tokens, request, options.max_new_tokens);
  set_if_given("--min-new-tokens", quire_job_request_set_min_new_tokens, request, options.min_new_tokens);
  for (const std::string& text : options.stop_texts) {
    set("--stop", quire_job_request_add_stop_text, request, text);
  }
  set("--stop-token", quire_job_request_set_stop_tokens, request, options.stop_tokens);
  call(quire_job_request_set_ignore_eos, request, int32_t{options.ignore_eos});
}

void set_penalties(quire_job_request* request, const GenerateOptions& options) {
  set_if_given("--repetition-penalty", quire_job_request_set_repetition_penalty, request,
               options.repetition_penalty);
  set_if_given("--frequency-penalty", quire_job_request_set_frequency_penalty, request,
               options.frequency_penalty);
  set_if_given("--presence-penalty", quire_job_request_set_presence_penalty, request,
               options.presence_penalty);
  set_if_given("--penalty-range", quire_job_request_set_penalty_range, request, options.penalty_range);
  set_if_given("--penalty-decay", quire_job_request_set_penalty_decay, request, options.penalty_decay);
}

void set_sampling(quire_job_request* request, const GenerateOptions& options) {
  set_if_given("--seed", quire_job_request_set_seed, request, options.seed);
  set_if_given("--temperature", quire_job_request_set_temperature, request, options.temperature);
  set_if_given("--top-k", quire_job_request_set_top_k, request, options.top_k);
  set_if_given("--top-p", quire_job_request_set_top_p, request, options.top_p);
  set_if_given("--min-p", quire_job_request_set_min_p, request, options.min_p);
  set_penalties(request, options);
  set("--ban-token", quire_job_request_set_banned_tokens, request, options.banned_tokens);
  for (const std::string& text : options.logit_biases) add_logit_bias(request, text);
  call(quire_job_request_set_log_probs, request, int32_t{options.log_probs});
}

void set_json(quire_job_request* request, const JsonChoice& json) {
  set_if_given("--json-order", quire_job_request_set_json_order, request, json.order);
  set_if_given("--json-space", quire_job_request_set_json_space, request, json.space);
  call(quire_job_request_set_json_closed, request, int32_t{!json.open});
  call(quire_job_request_set_json_plain_integers, request, int32_t{!json.any_integers});
}

}  // namespace

void add_generate_options(CLI::App& app, GenerateOptions& options) {
  add_runtime_options(app, options.model);
  add_prompt_options(app, options);
  add_settings(app, options);
}

void add_settings(CLI::App& app, GenerateOptions& options) {
  add_stop_options(app, options);
  add_sampling_options(app, options);
  add_json_options(app, options);
  add_drafting_options(app, options.model.drafting);
}

void set_recommended_sampling(quire_job_request* request, quire_model* model) {
  try {
    call(quire_job_request_set_sampling_of_model, request, model);
  } catch (const Error& error) {
    if (error.code() != QUIRE_ERROR_NOT_FOUND) throw;
  }
}

void apply_settings(quire_job_request* request, const GenerateOptions& options) {
  set_stops(request, options);
  set_sampling(request, options);
  set_json(request, options.json);
}

void set_guidance(quire_job_request* request, const GenerateOptions& options,
                  const std::vector<int32_t>& negative_prompt) {
  if (options.negative_prompt) {
    set("--negative-prompt", quire_job_request_set_negative_prompt_tokens, request, negative_prompt);
  }
  set_if_given("--guidance-scale", quire_job_request_set_guidance_scale, request, options.guidance_scale);
}

Request make_request(quire_model* model, const GenerateOptions& options, const std::vector<int32_t>& prompt) {
  Request request(call(quire_job_request_create));
  call(quire_job_request_set_prompt_tokens, request.get(), prompt);
  call(quire_job_request_set_progress_events, request.get(), 1);
  set_recommended_sampling(request.get(), model);
  apply_settings(request.get(), options);
  return request;
}

}  // namespace quire::cli
