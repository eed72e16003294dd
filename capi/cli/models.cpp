// quire models: lists the models that are in the cache of the hub, and whether they run on this machine.
#include <algorithm>

#include "capi/cli/commands.h"
#include "capi/cli/failure.h"
#include "capi/cli/terminal.h"
#include "capi/hub/cache.h"
#include "capi/hub/settings.h"

namespace quire::cli {
namespace {

struct ModelsOptions {
  ModelChoice model;  // the device and how it is used; the path is of each model in turn
  int64_t context = 4096;
};

// Answer of the planner for one model.
struct Fit {
  std::string architecture;
  std::string reason;        // why it does not run; empty if it does
  int64_t needed_bytes = 0;  // weights, cache and workspace
  int64_t context = 0;
};

std::string size_text(int64_t bytes) {
  return format_bytes(static_cast<double>(bytes));
}

Fit plan_fit(quire_runtime* runtime, const ModelsOptions& options, const std::string& path,
             Interrupt& interrupt) {
  Fit fit;
  ModelChoice choice = options.model;
  choice.path = path;
  try {
    const Model model = load_model(runtime, choice, QUIRE_MODEL_SCOPE_METADATA, interrupt);
    fit.architecture = text_of(quire_model_architecture, model.get());
    fit.context = std::min<int64_t>(options.context, call(quire_model_max_context, model.get()));
    const ModelOptions model_options = choose_model(choice, path);
    const CacheOptions cache(call(quire_cache_options_create));
    call(quire_cache_options_set_max_seq_len, cache.get(), fit.context);
    call(quire_cache_options_set_max_tokens, cache.get(), fit.context);
    call(quire_cache_options_set_max_batch_size, cache.get(), 1);
    const Plan plan(call(quire_plan_create, runtime, model_options.get(), cache.get()));
    fit.needed_bytes = call(quire_plan_total_bytes, plan.get());
    for (int32_t i = 0; i < call(quire_plan_num_devices, plan.get()); ++i) {
      const int64_t needed = call(quire_plan_device_total_bytes, plan.get(), i);
      const int64_t usable = call(quire_plan_device_usable_bytes, plan.get(), i);
      if (needed > usable)
        fit.reason = text_of(quire_plan_device_name, plan.get(), i) + " lacks memory: needs " +
                     size_text(needed) + ", free are " + size_text(usable);
    }
  } catch (const Failure& failure) {
    fit.reason = failure.what();
  } catch (const Error& error) {
    if (error.code() == QUIRE_ERROR_CANCELLED) throw;
    fit.reason = error.what();
  }
  return fit;
}

Json as_json(const hub::CachedModel& model, const Fit& fit) {
  Json json{
      {"model", model.name.text()}, {"path", model.path}, {"commit", model.commit}, {"bytes", model.bytes}};
  if (!fit.architecture.empty()) json["architecture"] = fit.architecture;
  json["runs"] = fit.reason.empty();
  if (fit.needed_bytes > 0) json["needed_bytes"] = fit.needed_bytes;
  if (fit.context > 0) json["context"] = fit.context;
  if (!fit.reason.empty()) json["reason"] = fit.reason;
  return json;
}

void print_models(const Json& models) {
  Table table({"model", "size", "needs", "runs"});
  for (const Json& model : models) {
    const bool runs = model.at("runs").get<bool>();
    table.add({model.at("model").get<std::string>(), size_text(model.at("bytes").get<int64_t>()),
               model.contains("needed_bytes") ? size_text(model.at("needed_bytes").get<int64_t>()) : "-",
               runs ? "yes" : "no: " + model.at("reason").get<std::string>()});
  }
  print(table.text());
}

int models(const ModelsOptions& options, Interrupt& interrupt) {
  const std::string cache = hub::cache_from_environment();
  const Runtime runtime = open_runtime(options.model);
  Json listed = Json::array();
  for (const hub::CachedModel& model : hub::list_cached_models(cache)) {
    if (interrupt.requested()) return interrupt.exit_code();
    listed.push_back(as_json(model, plan_fit(runtime.get(), options, model.path, interrupt)));
  }
  if (options.model.json) {
    print_json({{"cache", cache}, {"models", std::move(listed)}});
  } else if (listed.empty()) {
    note("no models in " + cache + "; bring one with quire pull ORG/NAME");
  } else {
    print_models(listed);
  }
  return kExitOk;
}

constexpr const char* kModelsNotes =
    R"(Lists what quire pull and huggingface_hub have brought. Reads headers, never weights. A model runs if its weights
and a cache for one job fit into the free memory of the device.

Examples:
  quire models
  quire models --device cuda:0 --context 32768 --json
)";

}  // namespace

Command add_models(CLI::App& root) {
  auto options = std::make_shared<ModelsOptions>();
  CLI::App* app = root.add_subcommand("models", "List the models of the cache, and whether they run here");
  app->footer(kModelsNotes);
  app->add_option("--device", options->model.device, "Device that would run them: cpu, cuda:0 (default: cpu)")
      ->type_name("NAMES");
  app->add_option("--context", options->context, "Tokens of one job, at most those of the model")
      ->type_name("N")
      ->check(in_range(1, kMaxTokens))
      ->capture_default_str();
  app->add_flag("--json", options->model.json, "Print one JSON object on standard output");
  return {app, [options](Interrupt& interrupt) { return models(*options, interrupt); }};
}

}  // namespace quire::cli
