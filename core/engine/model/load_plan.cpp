#include "core/engine/model/load_plan.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/engine/model/precision.h"
#include "core/models/model_variants.h"

namespace quire {
namespace {

constexpr uint64_t kDefaultReserve = uint64_t{256} << 20;

uint64_t reserve_of(const ModelLoadOptions& load, size_t device_idx, const Device& device) {
  if (load.reserve.empty()) return device.is_card() ? kDefaultReserve : 0;
  return load.reserve.size() == 1 ? load.reserve.front() : load.reserve[device_idx];
}

// Adds the host for experts, unless it is among the devices. It takes no layers.
void add_host(DeviceRegistry& registry, std::vector<ModelDevice>& devices) {
  const auto is_host = [](const ModelDevice& device) { return device.device->is_host(); };
  if (std::any_of(devices.begin(), devices.end(), is_host)) return;
  devices.push_back(registry.open_all("cpu").front());
  devices.back().takes_layers = false;
}

void check_sizes(const ModelLoadOptions& load, size_t num_devices) {
  if (load.reserve.size() > 1 && load.reserve.size() != num_devices) {
    throw Error(ErrorCode::invalid_argument,
                "reserve: {} numbers for {} devices; give one for each device, or one for all",
                load.reserve.size(), num_devices)
        .at("reserve");
  }
  const std::vector<uint64_t>& budgets = load.split.bytes;
  if (!budgets.empty() && budgets.size() != num_devices) {
    throw Error(ErrorCode::invalid_argument, "split: {} numbers for {} devices; give one for each device",
                budgets.size(), num_devices)
        .at("split");
  }
}

}  // namespace

ModelPlanOptions plan_options(DeviceRegistry& devices, const ModelLoadOptions& load,
                              std::shared_ptr<ModelSource> source) {
  ModelPlanOptions options;
  options.source = std::move(source);
  options.devices = devices.open_all(load.devices);
  check_sizes(load, options.devices.size());
  for (size_t i = 0; i < options.devices.size(); ++i) {
    ModelDevice& device = options.devices[i];
    device.reserve_bytes = reserve_of(load, i, *device.device);
    if (!load.split.bytes.empty()) device.budget_bytes = load.split.bytes[i];
  }
  options.split = load.split.layers;
  options.host_experts = load.host_experts;
  if (load.host_experts.any()) add_host(devices, options.devices);
  options.num_shards = load.num_shards;
  options.activations = load.activations;
  options.cache = load.cache;
  options.drafter = load.drafter;
  return options;
}

PlannedModel plan_variants(const FileSystem& files, DeviceRegistry& devices, const ModelLoadOptions& load) {
  const auto plan = [&](const std::string& path) {
    PlannedModel planned;
    planned.options = plan_options(devices, load, open_model_source(files, path));
    open_drafter(files, planned.options);
    planned.plan = plan_model(planned.options);
    return planned;
  };
  return first_that_fits(model_variants(files, load.path), plan,
                         [](const PlannedModel& planned) { return fits(planned.plan, planned.options); });
}

}  // namespace quire
