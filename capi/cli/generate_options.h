// Options of `quire generate`, and the request built from them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "capi/cli/session.h"

namespace quire::cli {

// Form of JSON that a schema or a call of a tool describes; an empty member leaves the library's default.
struct JsonChoice {
  std::optional<int32_t> order;
  bool open = false;
  bool any_integers = false;
  std::optional<int32_t> space;
};

// Options; an empty one leaves the library's default.
// Wide type: one member for each option of the command line.
struct GenerateOptions {
  ModelChoice model;
  std::string prompt;
  std::string prompt_file;
  std::optional<std::string> negative_prompt;
  std::optional<double> guidance_scale;
  bool no_special = false;
  bool parse_special = false;
  int num_jobs = 1;
  std::optional<int64_t> context;
  std::optional<int64_t> min_cache_tokens;
  std::string prefix_directory;
  bool quiet = false;

  int32_t max_new_tokens = 256;
  std::optional<int32_t> min_new_tokens;
  std::vector<std::string> stop_texts;
  std::vector<int32_t> stop_tokens;
  bool ignore_eos = false;

  std::optional<uint64_t> seed;
  std::optional<double> temperature;
  std::optional<int32_t> top_k;
  std::optional<double> top_p;
  std::optional<double> min_p;
  std::optional<double> repetition_penalty;
  std::optional<double> frequency_penalty;
  std::optional<double> presence_penalty;
  std::optional<int32_t> penalty_range;
  std::optional<int32_t> penalty_decay;
  std::vector<int32_t> banned_tokens;
  std::vector<std::string> logit_biases;  // "ID=BIAS"
  bool log_probs = false;

  std::string schema_file;
  JsonChoice json;
};

void add_generate_options(CLI::App& app, GenerateOptions& options);

// Adds only the options for length, stops, sampling and drafts; apply_settings applies those of the request.
void add_settings(CLI::App& app, GenerateOptions& options);
void apply_settings(quire_job_request* request, const GenerateOptions& options);
// Applies the sampling that the model's authors recommend, if any.
void set_recommended_sampling(quire_job_request* request, quire_model* model);

// Sets the negative prompt, if there is one, and the guidance scale.
void set_guidance(quire_job_request* request, const GenerateOptions& options,
                  const std::vector<int32_t>& negative_prompt);

// Builds the request, without guidance, without a constraint and without the seeds of further jobs. Settings
// without an option are those that the model's authors recommend.
Request make_request(quire_model* model, const GenerateOptions& options, const std::vector<int32_t>& prompt);

}  // namespace quire::cli
