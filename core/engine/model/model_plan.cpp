#include "core/engine/model/model_plan.h"

#include <algorithm>
#include <limits>
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

std::vector<StagePlace> places_of(const ModelPlanOptions& options) {
  std::vector<bool> is_host;
  is_host.reserve(options.devices.size());
  for (const ModelDevice& device : options.devices) is_host.push_back(device.device->is_host());
  return stage_places(is_host, options.num_shards);
}

// Returns a placement without layers.
Placement empty_placement(const std::vector<StagePlace>& places, size_t num_devices,
                          const std::vector<int32_t>& shares) {
  Placement placement;
  placement.shares = shares;
  placement.spreads.resize(num_devices);
  bool any = false;
  for (const StagePlace& place : places) {
    placement.spreads[static_cast<size_t>(place.device)] = place.spreads;
    any = any || place.spreads;
  }
  if (!any) placement.spreads.clear();
  return placement;
}

// Returns the devices of the shards of a stage, each once.
gsl::span<const ModelDevice> devices_at(const ModelPlanOptions& options, const StagePlace& place) {
  const auto count = static_cast<size_t>(place.spreads ? options.num_shards : 1);
  return gsl::span<const ModelDevice>(options.devices).subspan(static_cast<size_t>(place.device), count);
}

// Returns the demand of a model in one stage at a place, of each of its devices.
std::vector<DeviceDemand> demands_at(const ModelPlanOptions& options, const StagePlace& place,
                                     const std::vector<int32_t>& shares, bool crosses,
                                     const TransformerExecutorOptions& executor) {
  std::vector<std::shared_ptr<Device>> devices;
  for (const ModelDevice& device : devices_at(options, place)) devices.push_back(device.device);
  const Placement placement = empty_placement({{0, place.spreads}}, devices.size(), shares);
  const auto outline = build_outline(*options.source, devices, placement, options.num_shards,
                                     options.activations, options.draft_source.get());
  if (!place.spreads) return {demand_of(*outline, crosses, executor)};
  std::vector<DeviceDemand> demands;
  demands.reserve(static_cast<size_t>(options.num_shards));
  for (int32_t rank = 0; rank < options.num_shards; ++rank)
    demands.push_back(demand_of_shard(*outline, rank, crosses, executor));
  return demands;
}

// Returns the number of the first device of the same backend.
size_t first_of_backend(const ModelPlanOptions& options, const Device& device) {
  const auto first =
      std::find_if(options.devices.begin(), options.devices.end(),
                   [&](const ModelDevice& other) { return other.device->shares_backend(device); });
  return static_cast<size_t>(first - options.devices.begin());
}

// Returns the memory of each place of a stage and the model's demand there. Devices of one backend lay out
// matrices alike, so they share one outline of the model.
std::vector<DeviceCapacity> capacities(const ModelPlanOptions& options, const std::vector<StagePlace>& places,
                                       const std::vector<int32_t>& shares, const ModelCacheOptions& cache) {
  const Device& first = *options.devices.front().device;
  const bool crosses = std::any_of(options.devices.begin(), options.devices.end(),
                                   [&](const ModelDevice& d) { return !d.device->shares_backend(first); });
  const TransformerExecutorOptions executor = executor_options(options.source->config(), cache);
  std::map<std::pair<size_t, bool>, std::vector<DeviceDemand>>
      demands;  // by backend, for both kinds of places
  std::vector<DeviceCapacity> rooms;
  for (const StagePlace& place : places) {
    const gsl::span<const ModelDevice> devices = devices_at(options, place);
    std::vector<DeviceDemand>& demand =
        demands[{first_of_backend(options, *devices.front().device), place.spreads}];
    if (demand.empty()) demand = demands_at(options, place, shares, crosses, executor);
    DeviceCapacity room = capacity_of(devices.front());
    room.demand = demand.front();
    for (size_t r = 1; r < devices.size(); ++r) {
      room.peers.push_back(capacity_of(devices[r]));
      room.peers.back().demand = demand[r];
    }
    rooms.push_back(std::move(room));
  }
  return rooms;
}

// Returns the layers of each place, or throws if their number is not that of the places.
std::vector<int32_t> chosen_split(const ModelPlanOptions& options, size_t num_places) {
  if (options.split.size() == num_places) return options.split;
  const bool are_devices = num_places == options.devices.size();
  throw Error(ErrorCode::invalid_argument, "split: {} numbers for {} {}; give one for each",
              options.split.size(), num_places,
              are_devices ? "devices" : fmt::format("stages of {} devices", options.num_shards))
      .at("split");
}

// Returns a placement on places, numbered in their order.
Placement place_layers(const ModelPlanOptions& options, const std::vector<StagePlace>& places,
                       const std::vector<int32_t>& shares, const ModelCacheOptions& cache) {
  const int32_t num_layers = options.source->config().num_layers;
  if (!options.split.empty()) return place_by_counts(chosen_split(options, places.size()), num_layers);
  if (!has_budgets(options)) {
    refuse_twins(options);
    if (places.size() == 1) return place_on_one_device(num_layers);
  }
  return split_automatically(capacities(options, places, shares, cache));
}

Placement choose_placement(const ModelPlanOptions& options, const std::vector<int32_t>& shares,
                           const ModelCacheOptions& cache) {
  const std::vector<StagePlace> places = places_of(options);
  Placement placement = empty_placement(places, options.devices.size(), shares);
  placement.device_of_layer = place_layers(options, places, shares, cache).device_of_layer;
  for (int32_t& device : placement.device_of_layer) device = places[static_cast<size_t>(device)].device;
  return placement;
}

ModelPlan plan_with_shares(const ModelPlanOptions& options, const std::vector<int32_t>& shares,
                           const ModelCacheOptions& cache) {
  const ModelConfig& config = options.source->config();
  const Placement placement = choose_placement(options, shares, cache);
  const auto outline = build_outline(*options.source, devices_of(options), placement, options.num_shards,
                                     options.activations, options.draft_source.get());
  ModelPlan plan;
  plan.cache = cache;
  plan.memory = plan_memory(*outline, placement, options.devices.size(), executor_options(config, cache));
  for (const ModelDevice& device : options.devices)
    plan.usable_bytes.push_back(capacity_of(device).usable_bytes());
  return plan;
}

// Returns the usable memory of the cards of each shard, in MiB: the least of all stages. Empty if shards have
// no cards of their own.
std::vector<int32_t> shares_by_memory(const ModelPlanOptions& options) {
  constexpr uint64_t kUnit = uint64_t{1} << 20;
  std::vector<uint64_t> least;
  for (const StagePlace& place : places_of(options)) {
    if (!place.spreads) continue;
    least.resize(static_cast<size_t>(options.num_shards), std::numeric_limits<uint64_t>::max());
    const gsl::span<const ModelDevice> devices = devices_at(options, place);
    for (size_t r = 0; r < devices.size(); ++r)
      least[r] = std::min(least[r], capacity_of(devices[r]).usable_bytes());
  }
  std::vector<int32_t> shares;
  shares.reserve(least.size());
  for (const uint64_t bytes : least)
    shares.push_back(static_cast<int32_t>(std::clamp<uint64_t>(bytes / kUnit, 1, INT32_MAX)));
  return shares;
}

ModelPlan plan_with(const ModelPlanOptions& options, const ModelCacheOptions& cache) {
  std::optional<Error> refusal;
  std::optional<ModelPlan> even;
  try {
    even = plan_with_shares(options, {}, cache);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::out_of_memory) throw;
    refusal = error;
  }
  if (even && fits(*even, options)) return std::move(*even);
  const std::vector<int32_t> shares = shares_by_memory(options);
  const bool are_equal = std::equal(shares.begin() + (shares.empty() ? 0 : 1), shares.end(), shares.begin());
  if (!are_equal) {
    try {
      ModelPlan uneven = plan_with_shares(options, shares, cache);
      if (fits(uneven, options)) return uneven;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::out_of_memory) throw;
    }
  }
  if (refusal) throw Error(*refusal);
  return std::move(*even);
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
