#include "capi/cli/session.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>

#include "capi/cli/failure.h"
#include "capi/cli/terminal.h"
#include "capi/hub/cache.h"
#include "capi/hub/error.h"
#include "capi/hub/settings.h"

namespace quire::cli {
namespace {

constexpr const char* kEmbeddedModel = "story-15m-exl2-4.0bpw";

// Returns PREFIX/share/quire/models/NAME for a program at PREFIX/bin/quire.
std::filesystem::path embedded_model_path() {
  std::error_code ignored;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  return program.parent_path().parent_path() / "share" / "quire" / "models" / kEmbeddedModel;
}

// Prints warnings and errors of the library's log.
void show_log_line(void* /*user_data*/, int32_t /*level*/, const char* text, size_t text_len) {
  note("quire: " + std::string(text, text_len));
}

struct LoadProgress {
  Progress line;
  std::string name;
};

void show_load(void* user_data, int64_t done_bytes, int64_t total_bytes) {
  auto& progress = *static_cast<LoadProgress*>(user_data);
  const double share =
      total_bytes > 0 ? static_cast<double>(done_bytes) / static_cast<double>(total_bytes) : 1.0;
  progress.line.show("loading " + progress.name + "  " + format_number(100.0 * share, 0) + "% of " +
                     format_bytes(static_cast<double>(total_bytes)));
}

void show_draft_network(quire_model* model, Progress& line) {
  const std::string network = draft_network_text(model);
  if (network.empty() || !line.enabled()) return;
  line.clear();
  note("draft network: " + network);
}

bool is_load_failure(const Error& error) {
  return error.code() != QUIRE_ERROR_CANCELLED && error.code() != QUIRE_ERROR_INVALID_ARGUMENT;
}

struct KvFormatName {
  const char* name;
  int32_t format;
};
constexpr std::array<KvFormatName, 6> kKvFormats = {{{"f16", QUIRE_KV_F16},
                                                     {"q8", QUIRE_KV_Q8},
                                                     {"q6", QUIRE_KV_Q6},
                                                     {"q4", QUIRE_KV_Q4},
                                                     {"fp8", QUIRE_KV_FP8},
                                                     {"auto", QUIRE_KV_AUTO}}};

}  // namespace

void add_kv_format_option(CLI::App& app, std::string& name) {
  app.add_option("--kv-format", name, "Storage format of keys and values (default: f16)")
      ->type_name("f16|q8|q6|q4|fp8|auto")
      ->check(CLI::IsMember({"f16", "q8", "q6", "q4", "fp8", "auto"}));
}

std::string kv_format_name(int32_t format) {
  const auto* const found = std::find_if(kKvFormats.begin(), kKvFormats.end(),
                                         [&](const KvFormatName& entry) { return entry.format == format; });
  return found->name;
}

int32_t kv_format_of(const std::string& name) {
  const auto* const found = std::find_if(kKvFormats.begin(), kKvFormats.end(),
                                         [&](const KvFormatName& entry) { return entry.name == name; });
  return found->format;  // the parser has checked the name
}

void add_model_options(CLI::App& app, ModelChoice& choice) {
  app.add_option("-m,--model", choice.path,
                 "Model directory, GGUF file, or name of a model that quire pull has brought (default: "
                 "$QUIRE_MODEL, otherwise the embedded model)")
      ->type_name("PATH");
  app.add_flag("--json", choice.json, "Print one JSON object on standard output");
}

void add_shards_option(CLI::App& app, ModelChoice& choice) {
  app.add_option("--shards", choice.num_shards,
                 "Parallel shards of each layer: one on each card, or on the CPU, where they divide the "
                 "threads (default: 1)")
      ->check(in_range(1, 64))
      ->type_name("N");
}

void add_runtime_options(CLI::App& app, ModelChoice& choice) {
  add_model_options(app, choice);
  app.add_option(
         "--device", choice.device,
         "Device that runs the model: cpu, cuda:0 (default: cpu); several divide its layers, or each layer "
         "with --shards: cuda:0,cuda:1; tcp://HOST:PORT is a stage of another host (quire stage)")
      ->type_name("NAMES");
  app.add_option(
         "--stage-transport", choice.stages.transport,
         "How activations travel to the stages in --device: auto (NCCL if both processes have it), tcp or "
         "nccl (default: auto)")
      ->type_name("NAME");
  app.add_option("--stage-key", choice.stages.key_file, "File with the key of the stages in --device")
      ->type_name("FILE");
  app.add_option("--split", choice.split,
                 "Layers of each device or stage, as in 20,12, or maximum memory of each, as in 24G,20G "
                 "(default: auto, by free memory)")
      ->type_name("COUNTS|BYTES");
  app.add_option(
         "--host-experts", choice.host_experts,
         "Layers whose experts (MoE) lie in host memory and compute on the CPU: none, all, the first N, "
         "or auto for as few as the cards need (default: none)")
      ->type_name("none|all|auto|N");
  app.add_option(
         "--card-experts", choice.card_expert_bytes,
         "Memory of each card, as in 4G, for those of them that tokens choose most often (default: 0)")
      ->transform(CLI::AsSizeValue(false).description(""))
      ->type_name("BYTES");
  app.add_option("--reserve", choice.reserve,
                 "Device memory to leave free: 512M, or 512M,2G for each (default: 256M)")
      ->type_name("BYTES");
  app.add_option(
         "--activation-dtype", choice.activation_dtype,
         "Format of activations in quantized products; i8 and f8 are faster and less exact (default: full)")
      ->type_name("full|i8|f8")
      ->check(CLI::IsMember({"full", "i8", "f8"}));
  add_shards_option(app, choice);
  app.add_option("--threads", choice.num_threads, "Threads that compute on the CPU (default: one per core)")
      ->type_name("N");
}

CLI::Validator in_range(int64_t min, int64_t max) {
  const auto check = [min, max](const std::string& text) -> std::string {
    int64_t value = 0;
    if (CLI::detail::lexical_cast(text, value) && value >= min && value <= max) return {};
    return "must be from " + std::to_string(min) + " to " + std::to_string(max) + ", not " + text;
  };
  return {check, "", "range"};
}

std::string find_model(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored) || !hub::looks_like_model_name(path)) return path;
  try {
    return hub::find_cached_model(hub::cache_from_environment(), hub::parse_model_name(path)).path;
  } catch (const hub::HubError& error) {
    throw Failure(kExitNoModel, path + ": no such file or directory; as a model of a hub: " + error.what());
  }
}

std::string resolve_model_path(const ModelChoice& choice) {
  if (!choice.path.empty()) return find_model(choice.path);
  const char* from_environment = std::getenv("QUIRE_MODEL");
  if (from_environment != nullptr && *from_environment != '\0') return find_model(from_environment);
  const std::filesystem::path embedded = embedded_model_path();
  std::error_code ignored;
  if (std::filesystem::exists(embedded, ignored)) return embedded.string();
  throw Failure(kExitNoModel, "no model: the embedded model is missing at " + embedded.string() +
                                  "; give one with --model PATH or QUIRE_MODEL");
}

Runtime open_runtime(const ModelChoice& choice) {
  const RuntimeOptions options(call(quire_runtime_options_create));
  if (choice.num_threads != 0) call(quire_runtime_options_set_num_threads, options.get(), choice.num_threads);
  if (!choice.device.empty()) {
    call(quire_runtime_options_set_device, options.get(), choice.device);
  }
  if (!choice.stages.key_file.empty())
    call(quire_runtime_options_set_stage_key_file, options.get(), choice.stages.key_file);
  if (!choice.stages.transport.empty())
    call(quire_runtime_options_set_stage_transport, options.get(), choice.stages.transport);
  call(quire_runtime_options_set_log_sink, options.get(), show_log_line, nullptr);
  return Runtime(call(quire_runtime_create, options.get()));
}

ModelOptions choose_model(const ModelChoice& choice, const std::string& path) {
  ModelOptions options(call(quire_model_options_create));
  call(quire_model_options_set_path, options.get(), path);
  if (!choice.split.empty()) call(quire_model_options_set_split, options.get(), choice.split);
  call(quire_model_options_set_host_experts, options.get(), choice.host_experts);
  if (!choice.reserve.empty()) call(quire_model_options_set_reserve, options.get(), choice.reserve);
  if (choice.activation_dtype == "i8")
    call(quire_model_options_set_activation_dtype, options.get(), QUIRE_ACTIVATION_I8);
  if (choice.activation_dtype == "f8")
    call(quire_model_options_set_activation_dtype, options.get(), QUIRE_ACTIVATION_F8);
  if (choice.num_shards != 1) call(quire_model_options_set_num_shards, options.get(), choice.num_shards);
  set_draft_network(options.get(), choice.drafting);
  if (choice.card_expert_bytes > 0) {
    constexpr int64_t kPlannedTokens = 8192;
    const CacheOptions cache = choose_cache(choice);
    call(quire_cache_options_set_max_tokens, cache.get(), kPlannedTokens);
    call(quire_model_options_set_planned_cache, options.get(), cache.get());
  }
  return options;
}

CacheOptions choose_cache(const ModelChoice& choice) {
  CacheOptions options(call(quire_cache_options_create));
  set_drafting(options.get(), choice.drafting);
  call(quire_cache_options_set_card_expert_bytes, options.get(), choice.card_expert_bytes);
  return options;
}

Model load_model(quire_runtime* runtime, const ModelChoice& choice, int32_t scope, Interrupt& interrupt) {
  const std::string path = resolve_model_path(choice);
  LoadProgress progress{Progress(), path};
  const ModelOptions options = choose_model(choice, path);
  call(quire_model_options_set_scope, options.get(), scope);
  call(quire_model_options_set_progress, options.get(), show_load, static_cast<void*>(&progress));
  try {
    Model model(
        call(quire_model_load, runtime, options.get(), int64_t{QUIRE_WAIT_FOREVER}, interrupt.cancel()));
    if (scope == QUIRE_MODEL_SCOPE_FULL) show_draft_network(model.get(), progress.line);
    return model;
  } catch (const Error& error) {
    if (is_load_failure(error)) throw Failure(kExitNoModel, error.what());
    throw;
  }
}

Plan plan_model(quire_runtime* runtime, quire_model_options* model, quire_cache_options* cache) {
  try {
    return Plan(call(quire_plan_create, runtime, model, cache));
  } catch (const Error& error) {
    if (is_load_failure(error)) throw Failure(kExitNoModel, error.what());
    throw;
  }
}

int32_t tokenizer_size(quire_model* model) {
  try {
    return call(quire_model_tokenizer_size, model);
  } catch (const Error& error) {
    if (error.code() != QUIRE_ERROR_UNSUPPORTED) throw;
    return 0;
  }
}

std::vector<int32_t> encode(quire_model* model, const std::string& text, bool add_special,
                            bool parse_special) {
  return values_of<int32_t>(quire_model_encode, model, text, int32_t{add_special}, int32_t{parse_special});
}

}  // namespace quire::cli
