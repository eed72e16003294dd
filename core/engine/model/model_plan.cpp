#include "core/engine/model/model_plan.h"

#include <algorithm>
#include <map>

#include "core/base/error.h"
#include "core/engine/model/precision.h"
#include "core/models/host_experts.h"
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

// Returns the devices that take layers.
gsl::span<const ModelDevice> layer_devices(const ModelPlanOptions& options) {
  const gsl::span<const ModelDevice> devices = options.devices;
  return devices.back().takes_layers ? devices : devices.first(devices.size() - 1);
}

// Returns the index of the host among the devices; -1 if it is not there.
int32_t host_of(const ModelPlanOptions& options) {
  for (size_t i = options.devices.size(); i-- > 0;)
    if (options.devices[i].device->is_host()) return gsl::narrow<int32_t>(i);
  return -1;
}

// Places the experts of the given layers on the host, unless the layer is there itself.
void place_experts(const ModelPlanOptions& options, gsl::span<const int32_t> layers, Placement& placement) {
  if (layers.empty()) return;
  const int32_t host = host_of(options);
  placement.device_of_experts = placement.device_of_layer;
  for (const int32_t layer : layers) {
    int32_t& device = placement.device_of_experts[static_cast<size_t>(layer)];
    if (!options.devices[static_cast<size_t>(device)].device->is_host()) device = host;
  }
}

// Returns an outline of the model with all layers on one device, but the given experts on the host.
std::shared_ptr<const Transformer> outline_on(const ModelPlanOptions& options, const ModelDevice& device,
                                              gsl::span<const int32_t> host_experts) {
  ModelPlanOptions on_one = options;
  on_one.devices = {device};
  if (!host_experts.empty()) on_one.devices.push_back(options.devices[static_cast<size_t>(host_of(options))]);
  Placement placement = place_on_one_device(options.source->config().num_layers);
  place_experts(on_one, host_experts, placement);
  return build_outline(*options.source, devices_of(on_one), placement, options.num_shards,
                       options.activations, options.draft_source.get());
}

// Returns the bytes of the host experts of an outline with one stage: weights and workspace.
uint64_t host_experts_bytes(const Transformer& outline, const TransformerExecutorOptions& sizes) {
  uint64_t bytes = plan_host_experts(outline, sizes).cache();
  for (size_t i = 0; i < outline.stages.front().layers.size(); ++i)
    bytes += outline.host_experts_taken_bytes(0, i);
  return bytes;
}

// Returns the free memory of each device that takes layers, and the model's demand on it. Devices of one
// backend lay out matrices alike, so they share one outline of the model. The host keeps the bytes of the
// host experts free.
std::vector<DeviceCapacity> device_capacities(const ModelPlanOptions& options, const ModelCacheOptions& cache,
                                              gsl::span<const int32_t> host_experts) {
  const TransformerExecutorOptions sizes = executor_options(options.source->config(), cache);
  const gsl::span<const ModelDevice> devices = layer_devices(options);
  const Device& first = *devices.front().device;
  const bool crosses = std::any_of(devices.begin(), devices.end(),
                                   [&](const ModelDevice& d) { return !d.device->shares_backend(first); });
  std::vector<DeviceCapacity> rooms;
  uint64_t on_host = 0;
  for (const ModelDevice& device : devices) {
    DeviceCapacity room = capacity_of(device);
    const auto twin =
        std::find_if(devices.begin(), devices.begin() + static_cast<ptrdiff_t>(rooms.size()),
                     [&](const ModelDevice& other) { return other.device->shares_backend(*device.device); });
    const auto twin_idx = static_cast<size_t>(twin - devices.begin());
    if (twin_idx < rooms.size()) {
      room.demand = rooms[twin_idx].demand;
    } else {
      const auto outline = outline_on(options, device, host_experts);
      room.demand = demand_of(*outline, crosses, sizes);
      on_host = std::max(on_host, host_experts_bytes(*outline, sizes));
    }
    rooms.push_back(std::move(room));
  }
  for (DeviceCapacity& room : rooms)
    if (room.is_host) room.reserve_bytes += on_host;
  return rooms;
}

Placement place_layers(const ModelPlanOptions& options, const ModelCacheOptions& cache,
                       gsl::span<const int32_t> host_experts) {
  const int32_t num_layers = options.source->config().num_layers;
  const size_t num_devices = layer_devices(options).size();
  if (!options.split.empty()) {
    if (options.split.size() != num_devices) {
      throw Error(ErrorCode::invalid_argument, "split: {} numbers for {} devices; give one for each device",
                  options.split.size(), num_devices)
          .at("split");
    }
    return place_by_counts(options.split, num_layers);
  }
  if (!has_budgets(options)) {
    if (num_devices == 1) return place_on_one_device(num_layers);
    refuse_twins(options);
  }
  return split_automatically(device_capacities(options, cache, host_experts));
}

// Plans with the experts of the given layers on the host.
ModelPlan plan_with_experts(const ModelPlanOptions& options, const ModelCacheOptions& cache,
                            gsl::span<const int32_t> host_experts) {
  const ModelConfig& config = options.source->config();
  Placement placement = place_layers(options, cache, host_experts);
  place_experts(options, host_experts, placement);
  const auto outline = build_outline(*options.source, devices_of(options), placement, options.num_shards,
                                     options.activations, options.draft_source.get());
  ModelPlan plan;
  plan.cache = cache;
  plan.memory = plan_memory(*outline, placement, options.devices.size(), executor_options(config, cache));
  for (const ModelDevice& device : options.devices)
    plan.usable_bytes.push_back(capacity_of(device).usable_bytes());
  return plan;
}

// True if the memory suffices on the devices for which `counts` is true. A device may be listed several
// times.
template <typename Counts>
bool fits(const ModelPlan& plan, const ModelPlanOptions& options, const Counts& counts) {
  std::map<const Device*, uint64_t> taken;
  for (size_t i = 0; i < options.devices.size(); ++i) {
    uint64_t& bytes = taken[options.devices[i].device.get()];
    bytes += plan.memory.devices[i].total();
    if (counts(options.devices[i]) && bytes > plan.usable_bytes[i]) return false;
  }
  return true;
}

// True if no layer is on the host, and the other devices have the memory that the plan needs there.
bool fits_on_cards(const ModelPlan& plan, const ModelPlanOptions& options) {
  for (const int32_t device : plan.memory.placement.device_of_layer)
    if (options.devices[static_cast<size_t>(device)].device->is_host()) return false;
  return fits(plan, options, [](const ModelDevice& device) { return !device.device->is_host(); });
}

// Plans with the experts of as few of the given layers on the host as the cards need; with all of them if
// even that does not suffice.
ModelPlan plan_with_fewest(const ModelPlanOptions& options, const ModelCacheOptions& cache,
                           gsl::span<const int32_t> layers) {
  const auto plan_first = [&](size_t count) -> std::optional<ModelPlan> {
    try {
      ModelPlan plan = plan_with_experts(options, cache, layers.first(count));
      if (fits_on_cards(plan, options)) return plan;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::out_of_memory) throw;
    }
    return std::nullopt;
  };
  std::optional<ModelPlan> best = plan_first(0);
  size_t least = best ? layers.size() + 1 : 1, most = layers.size();
  while (least <= most) {
    const size_t count = least + (most - least) / 2;
    if (std::optional<ModelPlan> plan = plan_first(count)) {
      best = std::move(plan);
      most = count - 1;
    } else {
      least = count + 1;
    }
  }
  return best ? std::move(*best) : plan_with_experts(options, cache, layers);
}

// Returns the layers whose experts may lie on the host: those with experts. If the choice is automatic, none
// if there is no card or a block cannot lie apart.
std::vector<int32_t> movable_experts(const ModelPlanOptions& options) {
  const ModelSpec& model = options.source->config().spec;
  std::vector<int32_t> layers = layers_with_experts(model);
  const bool is_automatic = options.host_experts.is_automatic;
  if (layers.empty() && !is_automatic) {
    throw Error(ErrorCode::unsupported, "host_experts: {} has no experts; use none or auto",
                options.source->path())
        .at("host_experts");
  }
  if (host_of(options) < 0) {
    throw Error(ErrorCode::invalid_argument, "host_experts: no device is the host; name cpu as the last one")
        .at("host_experts");
  }
  const auto is_stuck = [&](int32_t layer) {
    return !host_experts_refusal(model.layers[static_cast<size_t>(layer)]).empty();
  };
  const auto is_host = [](const ModelDevice& device) { return device.device->is_host(); };
  const bool has_card = !std::all_of(options.devices.begin(), options.devices.end(), is_host);
  const bool can_move =
      has_card && options.num_shards == 1 && std::none_of(layers.begin(), layers.end(), is_stuck);
  return is_automatic && !can_move ? std::vector<int32_t>() : layers;
}

ModelPlan plan_with(const ModelPlanOptions& options, const ModelCacheOptions& cache) {
  const HostExpertsChoice& choice = options.host_experts;
  if (!choice.any()) return plan_with_experts(options, cache, {});
  const std::vector<int32_t> layers = movable_experts(options);
  if (choice.is_automatic) return plan_with_fewest(options, cache, layers);
  const size_t count = std::min(layers.size(), static_cast<size_t>(choice.num_layers));
  return plan_with_experts(options, cache, gsl::span<const int32_t>(layers).first(count));
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
  return fits(plan, options, [](const ModelDevice&) { return true; });
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
  std::vector<std::shared_ptr<Device>> devices = devices_of(options);
  devices.resize(layer_devices(options).size());  // a device of experts alone has no pages
  const std::vector<ModelCacheOptions> choices =
      kv_choices(cache_of(options), options.source->config(), devices);
  return first_that_fits(
      choices, [&](const ModelCacheOptions& cache) { return plan_with(options, cache); },
      [&](const ModelPlan& plan) { return fits(plan, options); });
}

}  // namespace quire
