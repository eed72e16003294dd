#include "core/engine/model/model_plan.h"

#include <algorithm>
#include <map>

#include "core/base/error.h"
#include "core/engine/model/precision.h"
#include "core/models/transformer_builder.h"
#include "core/tokenizer/tokenizer.h"

namespace quire {
namespace {

// Returns the memory of a device before the model is loaded.
DeviceCapacity capacity_of(const ModelDevice& device) {
  DeviceCapacity room;
  room.name = device.name;
  room.free_bytes = device.device->info().free_bytes + device.idle_bytes;
  room.reserve_bytes = device.reserve_bytes;
  room.budget_bytes = device.budget_bytes;
  room.is_host = device.device->is_host();
  return room;
}

std::vector<std::shared_ptr<Device>> devices_of(const ModelPlanOptions& options) {
  std::vector<std::shared_ptr<Device>> devices;
  for (const ModelDevice& device : options.devices) devices.push_back(device.device);
  return devices;
}

void refuse_twins(const ModelPlanOptions& options) {
  for (size_t i = 0; i < options.devices.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (options.devices[i].device != options.devices[j].device) continue;
      throw Error(ErrorCode::invalid_argument,
                  "device: {} is named twice; set split to the layers or bytes of each part",
                  options.devices[i].name)
          .at("device");
    }
  }
}

bool has_budgets(const ModelPlanOptions& options) {
  return std::any_of(options.devices.begin(), options.devices.end(),
                     [](const ModelDevice& device) { return device.budget_bytes.has_value(); });
}

ModelCacheOptions cache_of(const ModelPlanOptions& options) {
  if (options.cache) return *options.cache;
  ModelCacheOptions cache;
  cache.max_tokens = kPlannedTokens;
  return cache;
}

bool any_remote(const ModelPlanOptions& options) {
  return std::any_of(options.devices.begin(), options.devices.end(),
                     [](const ModelDevice& device) { return device.device->is_remote(); });
}

// Returns the first device of this process. Beside devices of other processes it has the ends of the model
// that would lie there.
size_t home_of(const ModelPlanOptions& options) {
  const auto home = std::find_if(options.devices.begin(), options.devices.end(),
                                 [](const ModelDevice& device) { return !device.device->is_remote(); });
  if (home != options.devices.end()) return static_cast<size_t>(home - options.devices.begin());
  throw Error(
      ErrorCode::invalid_argument,
      "device: {} is in another process, but the embedding and the head stay in this one; name one of "
      "its devices too, such as cpu",
      options.devices.front().name)
      .at("device");
}

// Gives the ends devices of this process.
Placement with_local_ends(Placement placement, const ModelPlanOptions& options) {
  if (!any_remote(options) || placement.device_of_layer.empty()) return placement;
  const auto home = static_cast<int32_t>(home_of(options));
  const auto is_remote = [&](int32_t device) {
    return options.devices[static_cast<size_t>(device)].device->is_remote();
  };
  if (is_remote(placement.device_of_layer.front())) placement.embedding_device = home;
  if (is_remote(placement.device_of_layer.back())) placement.head_device = home;
  return placement;
}

// Returns the demand of all layers on the device of another process.
DeviceDemand demand_elsewhere(const Device& device, const ModelPlanOptions& options,
                              const TransformerExecutorOptions& sizes) {
  const SharedModel model{options.source->path(), options.source->identity()};
  const int32_t num_layers = options.source->config().num_layers;
  return demand_of(*device.peer()->build({model, 0, num_layers, options.activations, BuildMode::plan}),
                   sizes);
}

// The ends, and the stages without layers that compute them, lie on this device whatever layers it has.
void fix_ends(DeviceCapacity& home) {
  DeviceDemand& demand = home.demand;
  home.fixed_bytes = demand.embedding_bytes + demand.head_bytes + 2 * demand.stage_bytes;
  demand.embedding_bytes = demand.head_bytes = 0;
}

// Returns the free memory of each device and the model's demand on it. Devices of one backend lay out
// matrices alike, so they share one outline of the model.
std::vector<DeviceCapacity> device_capacities(const ModelPlanOptions& options,
                                              const ModelCacheOptions& cache) {
  const ModelConfig& config = options.source->config();
  const Device& first = *options.devices.front().device;
  const bool crosses = std::any_of(options.devices.begin(), options.devices.end(),
                                   [&](const ModelDevice& d) { return !d.device->shares_backend(first); });
  std::vector<DeviceCapacity> rooms;
  for (const ModelDevice& device : options.devices) {
    DeviceCapacity room = capacity_of(device);
    const auto twin =
        std::find_if(options.devices.begin(), options.devices.begin() + static_cast<ptrdiff_t>(rooms.size()),
                     [&](const ModelDevice& other) { return other.device->shares_backend(*device.device); });
    const auto twin_idx = static_cast<size_t>(twin - options.devices.begin());
    if (device.device->is_remote()) {
      DeviceDemand demand = demand_elsewhere(*device.device, options, executor_options(config, cache));
      room = capacity_of(device);  // after an answer, which has the free bytes
      room.demand = std::move(demand);
    } else if (twin_idx < rooms.size()) {
      room.demand = rooms[twin_idx].demand;
    } else {
      const auto outline = build_outline(*options.source, {device.device}, {}, options.num_shards,
                                         options.activations, options.draft_source.get());
      room.demand = demand_of(*outline, crosses, executor_options(config, cache));
    }
    rooms.push_back(std::move(room));
  }
  if (any_remote(options)) fix_ends(rooms[home_of(options)]);
  return rooms;
}

Placement choose_placement(const ModelPlanOptions& options, const ModelCacheOptions& cache) {
  const int32_t num_layers = options.source->config().num_layers;
  if (!options.split.empty()) {
    if (options.split.size() != options.devices.size()) {
      throw Error(ErrorCode::invalid_argument, "split: {} numbers for {} devices; give one for each device",
                  options.split.size(), options.devices.size())
          .at("split");
    }
    return place_by_counts(options.split, num_layers);
  }
  if (!has_budgets(options)) {
    if (options.devices.size() == 1) return place_on_one_device(num_layers);
    refuse_twins(options);
  }
  return split_automatically(device_capacities(options, cache));
}

ModelPlan plan_with(const ModelPlanOptions& options, const ModelCacheOptions& cache) {
  const ModelConfig& config = options.source->config();
  const Placement placement = with_local_ends(choose_placement(options, cache), options);
  const auto outline = build_outline(*options.source, devices_of(options), placement, options.num_shards,
                                     options.activations, options.draft_source.get());
  ModelPlan plan;
  plan.cache = cache;
  plan.memory = plan_memory(*outline, placement, options.devices.size(), executor_options(config, cache));
  for (const ModelDevice& device : options.devices)
    plan.usable_bytes.push_back(capacity_of(device).usable_bytes());
  return plan;
}

// Throws if a draft model of its own has other tokens than its target. Padding of the vocabularies may
// differ.
void require_same_tokens(const DraftSource& drafter, ModelSource& target) {
  if (drafter.config.kind != DraftNetworkKind::model || !drafter.source->has_tokenizer() ||
      !target.has_tokenizer())
    return;
  const auto own = Tokenizer::load(drafter.source->tokenizer().files());
  const auto of_target = Tokenizer::load(target.tokenizer().files());
  const size_t count = std::min(own->vocab_size(), of_target->vocab_size());
  for (size_t id = 0; id < count; ++id) {
    const auto token = static_cast<TokenId>(id);
    if (own->token_text(token) == of_target->token_text(token)) continue;
    throw Error(ErrorCode::unsupported,
                "{} and {} have different tokens, {} among them; use a draft model with the tokenizer of its "
                "target",
                drafter.source->path(), target.path(), id);
  }
}

}  // namespace

bool fits(const ModelPlan& plan, const ModelPlanOptions& options) {
  std::map<const Device*, uint64_t> taken;  // a device may be listed several times
  for (size_t i = 0; i < options.devices.size(); ++i) {
    uint64_t& bytes = taken[options.devices[i].device.get()];
    bytes += plan.memory.devices[i].total();
    if (bytes > plan.usable_bytes[i]) return false;
  }
  return true;
}

void open_drafter(const FileSystem& files, ModelPlanOptions& options) {
  options.draft_source = nullptr;
  if (options.drafter.empty() || options.drafter == "none") return;
  const bool is_optional = options.drafter == "auto";
  const auto is_host = [](const ModelDevice& device) {
    return device.device == nullptr || device.device->is_host();
  };
  if (is_optional && !std::all_of(options.devices.begin(), options.devices.end(), is_host)) return;
  try {
    options.draft_source = std::make_shared<const DraftSource>(
        open_draft_source(files, is_optional ? std::string(kMtpDrafter) : options.drafter, options.source));
    require_same_tokens(*options.draft_source, *options.source);
  } catch (const Error& error) {
    // A checkpoint that lacks the module, or has another form of it, is loaded without it.
    if (is_optional && (error.code() == ErrorCode::unsupported || error.code() == ErrorCode::format)) return;
    throw Error(error.code(), "drafter: {}", error.what()).at("drafter");
  }
}

ModelPlan plan_model(const ModelPlanOptions& options) {
  if (options.devices.empty())
    throw Error(ErrorCode::invalid_argument, "device: none is given; name at least one").at("device");
  const std::vector<ModelCacheOptions> choices =
      kv_choices(cache_of(options), options.source->config(), devices_of(options));
  return first_that_fits(
      choices, [&](const ModelCacheOptions& cache) { return plan_with(options, cache); },
      [&](const ModelPlan& plan) { return fits(plan, options); });
}

}  // namespace quire
