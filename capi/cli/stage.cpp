// quire stage: runs layers of models for other hosts.
#include <charconv>
#include <string_view>

#include <quire/experimental.h>

#include "capi/cli/commands.h"
#include "capi/cli/failure.h"
#include "capi/cli/terminal.h"

namespace quire::cli {
namespace {

struct StageOptions {
  std::string listen;
  std::string key_file;
  std::string device;
  std::string models;
  std::string memory;
  std::string transport;
  int num_shards = 1;
  int num_threads = 0;
};

void show_line(void* /*user_data*/, int32_t /*level*/, const char* text, size_t text_len) {
  note("quire: " + std::string(text, text_len));
}

Runtime open_runtime_of(const StageOptions& options) {
  const RuntimeOptions runtime(call(quire_runtime_options_create));
  if (options.num_threads != 0)
    call(quire_runtime_options_set_num_threads, runtime.get(), options.num_threads);
  if (!options.device.empty()) call(quire_runtime_options_set_device, runtime.get(), options.device);
  call(quire_runtime_options_set_stage_key_file, runtime.get(), options.key_file);
  if (!options.transport.empty())
    call(quire_runtime_options_set_stage_transport, runtime.get(), options.transport);
  call(quire_runtime_options_set_log_level, runtime.get(), QUIRE_LOG_INFO);
  call(quire_runtime_options_set_log_sink, runtime.get(), show_line, nullptr);
  return Runtime(call(quire_runtime_create, runtime.get()));
}

// Reads bytes such as 24G; an empty text is 0. Throws Failure with kExitUsage for anything else.
int64_t memory_of(const std::string& text) {
  if (text.empty()) return 0;
  constexpr std::string_view kUnits = "KMG";
  const size_t unit = kUnits.find(text.back());
  const std::string digits = unit == std::string_view::npos ? text : text.substr(0, text.size() - 1);
  const int shift = unit == std::string_view::npos ? 0 : 10 * static_cast<int>(unit + 1);
  int64_t number = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool is_number = read.ec == std::errc() && read.ptr == digits.data() + digits.size();
  if (is_number && number > 0 && number <= INT64_MAX >> shift) return number << shift;
  throw Failure(kExitUsage, "--memory: \"" + text + "\" is not a number of bytes such as 24G");
}

// Serves until a signal, after which it ends as if it was done.
int serve(const StageOptions& options, Interrupt& interrupt) {
  const int64_t memory_bytes = memory_of(options.memory);
  const Runtime runtime = open_runtime_of(options);
  try {
    call(quire_runtime_serve_stage, runtime.get(), options.listen, options.models, options.num_shards,
         memory_bytes, int64_t{QUIRE_WAIT_FOREVER}, interrupt.cancel());
  } catch (const Error& error) {
    if (error.code() != QUIRE_ERROR_CANCELLED) throw;
  }
  return kExitOk;
}

constexpr const char* kNotes =
    R"(A host names the stage as a device and gives the same key:
  quire chat --model DIR --device cuda:0,tcp://10.0.0.2:7430 --stage-key FILE

The stage reads the files of the model from its own disk and refuses others. What it sends and receives is
authenticated and not encrypted: use a private network. Activations that travel by NCCL are not authenticated;
--transport tcp forbids it. SIGINT or SIGTERM ends it.

Examples:
  openssl rand -hex 32 > stage.key
  quire stage --listen 0.0.0.0:7430 --key-file stage.key --device cuda:0 --models /srv/models
  quire stage --listen 0.0.0.0:7430 --key-file stage.key --device cuda:0,cuda:1 --shards 2 --models /srv/models
)";

}  // namespace

Command add_stage(CLI::App& root) {
  auto options = std::make_shared<StageOptions>();
  CLI::App* app = root.add_subcommand("stage", "Run layers of models for other hosts");
  app->footer(kNotes);
  app->add_option("--listen", options->listen, "Address to listen at; port 0 takes a free one")
      ->type_name("HOST:PORT")
      ->required();
  app->add_option("--key-file", options->key_file, "File with the key that hosts have too, 32 bytes or more")
      ->type_name("FILE")
      ->required();
  app->add_option("--device", options->device,
                  "Device that runs the layers, or one for each shard: cpu, cuda:0,cuda:1 (default: cpu)")
      ->type_name("NAMES");
  app->add_option("--shards", options->num_shards,
                  "Shards of each layer (tensor parallelism), on one device or one on each (default: 1)")
      ->type_name("N");
  app->add_option("--memory", options->memory,
                  "Device memory that all hosts may take together, as in 24G (default: what is free)")
      ->type_name("BYTES");
  app->add_option(
         "--models", options->models,
         "Directory in which models are looked up by the end of the host's path (default: none, which "
         "allows synthetic models only)")
      ->type_name("DIR");
  app->add_option(
         "--transport", options->transport,
         "How activations travel: auto (NCCL if host and stage have it), tcp or nccl (default: auto)")
      ->type_name("NAME");
  app->add_option("--threads", options->num_threads,
                  "Threads that compute on the CPU (default: one per core)")
      ->type_name("N");
  return {app, [options](Interrupt& interrupt) { return serve(*options, interrupt); }};
}

}  // namespace quire::cli
