// What the commands share: options that choose and open a model.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "capi/cli/interrupt.h"
#include "capi/cli/library.h"

namespace quire::cli {

// A subcommand: parsed by CLI11, run by main when it was the one named.
struct Command {
  CLI::App* app;
  std::function<int(Interrupt&)> run;
};

struct ModelChoice {
  std::string path;     // empty: the embedded model
  std::string device;   // or several, separated by commas
  std::string split;    // empty: automatically
  std::string reserve;  // empty: the default
  std::string activation_dtype = "full";
  int num_shards = 1;
  int num_threads = 0;
  bool json = false;
};

// --model and --json.
void add_model_options(CLI::App& app, ModelChoice& choice);
void add_shards_option(CLI::App& app, ModelChoice& choice);
// --device, --split, --reserve, --activation-dtype, --shards and --threads as well.
void add_runtime_options(CLI::App& app, ModelChoice& choice);

// --kv-format, and the QUIRE_KV_* of a name that the parser has let through.
void add_kv_format_option(CLI::App& app, std::string& name);
int32_t kv_format_of(const std::string& name);
std::string kv_format_name(int32_t format);

// More than any model has.
inline constexpr int64_t kMaxTokens = int64_t{1} << 31;

// A range without the words that CLI11 puts into the help.
CLI::Validator in_range(int64_t min, int64_t max);

// The path given, or else $QUIRE_MODEL, or else the embedded model. Throws Failure where there is none.
std::string resolve_model_path(const ModelChoice& choice);

Runtime open_runtime(const ModelChoice& choice);

// Options that name the model and how it lies on its devices.
ModelOptions choose_model(const ModelChoice& choice, const std::string& path);

// Loads with a progress line. Throws Failure with kExitNoModel where the model cannot be loaded.
Model load_model(quire_runtime* runtime, const ModelChoice& choice, int32_t scope, Interrupt& interrupt);

// Ids of the model's tokenizer; 0 for a model without one, such as a synthetic one.
int32_t tokenizer_size(quire_model* model);

// Ids of a text as the model's tokenizer makes them.
std::vector<int32_t> encode(quire_model* model, const std::string& text, bool add_special,
                            bool parse_special);

}  // namespace quire::cli
