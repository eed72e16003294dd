// Options common to the commands, which choose and open a model.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <quire/quire.hpp>

#include "capi/cli/drafting.h"
#include "capi/cli/interrupt.h"

namespace quire::cli {

// A subcommand, parsed by CLI11 and run by main.
struct Command {
  CLI::App* app;
  std::function<int(Interrupt&)> run;
};

// How to reach the stages among the devices.
struct StageChoice {
  std::string key_file;   // empty means none
  std::string transport;  // auto, tcp or nccl; empty means auto
};

struct ModelChoice {
  std::string path;    // empty means the embedded model
  std::string device;  // one, or several separated by commas
  StageChoice stages;
  std::string split;    // empty means automatic
  std::string reserve;  // empty means the default
  std::string host_experts = "none";
  int64_t card_expert_bytes = 0;
  std::string activation_dtype = "full";
  int num_shards = 1;
  int num_threads = 0;
  DraftingChoice drafting;
  bool json = false;
};

// Adds --model and --json.
void add_model_options(CLI::App& app, ModelChoice& choice);
void add_shards_option(CLI::App& app, ModelChoice& choice);
// Adds the options of add_model_options, and --device, --stage-key, --split, --host-experts, --card-experts,
// --reserve, --activation-dtype, --shards and --threads.
void add_runtime_options(CLI::App& app, ModelChoice& choice);

// Adds --kv-format; the two functions below convert its checked value from and to QUIRE_KV_*.
void add_kv_format_option(CLI::App& app, std::string& name);
int32_t kv_format_of(const std::string& name);
std::string kv_format_name(int32_t format);

// Upper bound of token counts, more than any model has.
inline constexpr int64_t kMaxTokens = int64_t{1} << 31;

// Returns a range check that adds no text to the help, unlike CLI11's own.
CLI::Validator in_range(int64_t min, int64_t max);

// Returns the path of a model: the given one, or if it does not exist and is a name of a hub, that of the
// model in the cache. Throws Failure with kExitNoModel if it is a name and the cache lacks the model.
std::string find_model(const std::string& path);

// Returns find_model of the given path, otherwise of $QUIRE_MODEL, otherwise the embedded model. Throws
// Failure if there is none.
std::string resolve_model_path(const ModelChoice& choice);

Runtime open_runtime(const ModelChoice& choice);

// Returns options with the model, its split over the devices and its draft network.
ModelOptions choose_model(const ModelChoice& choice, const std::string& path);
// Returns cache options with the drafter and the memory for experts on cards.
CacheOptions choose_cache(const ModelChoice& choice);

// Loads a model with a progress line, and shows its draft network on a terminal. Throws Failure with
// kExitNoModel if it cannot be loaded.
Model load_model(quire_runtime* runtime, const ModelChoice& choice, int32_t scope, Interrupt& interrupt);

// Plans a model with a cache. Throws Failure with kExitNoModel if the model cannot be planned.
Plan plan_model(quire_runtime* runtime, quire_model_options* model, quire_cache_options* cache);

// Returns the number of ids of the tokenizer; 0 for a model without one, such as a synthetic one.
int32_t tokenizer_size(quire_model* model);

// Returns the token ids of a text.
std::vector<int32_t> encode(quire_model* model, const std::string& text, bool add_special,
                            bool parse_special);

}  // namespace quire::cli
