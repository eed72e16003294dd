#include <algorithm>

#include <quire/model.h>

#include "capi/src/arguments.h"
#include "capi/src/cache_settings.h"
#include "capi/src/callback_scope.h"
#include "capi/src/guard.h"
#include "capi/src/model_plan.h"
#include "core/base/json.h"

namespace quire::capi {
namespace {

constexpr uint64_t kDefaultReserve = uint64_t{256} << 20;

uint64_t reserve_of(const ModelSettings& settings, size_t device_idx, const Device& device) {
  if (settings.reserve.empty()) return device.is_host() ? 0 : kDefaultReserve;
  return settings.reserve.size() == 1 ? settings.reserve.front() : settings.reserve[device_idx];
}

std::string bytes_as_json(const MemoryBytes& bytes) {
  return fmt::format(
      R"("total_bytes":{},"embedding_bytes":{},"layer_bytes":{},"head_bytes":{},"kv_bytes":{},)"
      R"("workspace_bytes":{},"staging_bytes":{})",
      bytes.total(), bytes.embedding, bytes.layers, bytes.head, bytes.kv, bytes.workspace, bytes.staging);
}

std::string plan_as_json(const ModelPlan& plan, const ModelPlanOptions& options) {
  const std::vector<int32_t>& placed = plan.memory.placement.device_of_layer;
  std::string devices;
  for (size_t i = 0; i < options.devices.size(); ++i) {
    const auto num_layers = std::count(placed.begin(), placed.end(), static_cast<int32_t>(i));
    devices += fmt::format(R"({}{{"name":{},"num_layers":{},{},"usable_bytes":{}}})", i == 0 ? "" : ",",
                           json_quoted(options.devices[i].name), num_layers,
                           bytes_as_json(plan.memory.devices[i]), plan.usable_bytes[i]);
  }
  std::string layers;
  for (size_t i = 0; i < placed.size(); ++i) {
    layers += fmt::format(R"({}{{"device":{},"bytes":{}}})", i == 0 ? "" : ",", placed[i],
                          plan.memory.layer_bytes[i]);
  }
  return fmt::format(R"({{{},"devices":[{}],"layers":[{}]}})", bytes_as_json(plan.memory.total()), devices,
                     layers);
}

}  // namespace

ModelPlanOptions plan_options(RuntimeShare& runtime, const ModelSettings& settings,
                              std::shared_ptr<ModelSource> source) {
  ModelPlanOptions options;
  options.source = std::move(source);
  options.devices = runtime.open_devices(settings.device);
  if (settings.reserve.size() > 1 && settings.reserve.size() != options.devices.size()) {
    throw Error(ErrorCode::invalid_argument, "reserve: {} numbers for {} devices", settings.reserve.size(),
                options.devices.size());
  }
  const std::vector<uint64_t>& budgets = settings.split.bytes;
  if (!budgets.empty() && budgets.size() != options.devices.size()) {
    throw Error(ErrorCode::invalid_argument, "split: {} numbers for {} devices", budgets.size(),
                options.devices.size());
  }
  for (size_t i = 0; i < options.devices.size(); ++i) {
    ModelDevice& device = options.devices[i];
    device.reserve_bytes = reserve_of(settings, i, *device.device);
    if (!budgets.empty()) device.budget_bytes = budgets[i];
  }
  options.split = settings.split.layers;
  if (settings.cache) options.cache = engine_options(*settings.cache);
  return options;
}

}  // namespace quire::capi

using namespace quire::capi;

int64_t quire_plan(quire_runtime* runtime, quire_model_options* model, quire_cache_options* cache,
                   char* out_text, size_t out_capacity, quire_error** error) {
  return guard(error, int64_t{-1}, [&] {
    const OutArgument<char> out(out_text, out_capacity, "out_text");
    const std::shared_ptr<RuntimeShare> share = Pinned(runtime, "runtime")->share;
    const ModelSettings settings = Pinned(model, "model")->read();
    const CacheSettings planned = cache == nullptr ? CacheSettings{} : Pinned(cache, "cache")->read();
    refuse_in_callback("quire_plan");
    if (settings.path.empty()) throw quire::Error(quire::ErrorCode::invalid_argument, "path: not set");
    quire::ModelPlanOptions options =
        plan_options(*share, settings, open_model_source(share->runtime()->files(), settings.path));
    options.cache = engine_options(planned);
    const std::string text = plan_as_json(plan_model(options), options);
    return out.write({text.data(), text.size()});
  });
}
