#include "core/engine/model/model_plan.h"

#include <algorithm>
#include <limits>
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

// Places the experts of the given layers on the host, unless the layer is there itself or in another process.
void place_experts(const ModelPlanOptions& options, gsl::span<const int32_t> layers, Placement& placement) {
  if (layers.empty()) return;
  const int32_t host = host_of(options);
  placement.device_of_experts = placement.device_of_layer;
  for (const int32_t layer : layers) {
    int32_t& device = placement.device_of_experts[static_cast<size_t>(layer)];
    if (options.devices[static_cast<size_t>(device)].device->is_card()) device = host;
  }
}

// Returns the bytes of the host experts of an outline with one stage: weights and workspace.
uint64_t host_experts_bytes(const Transformer& outline, const TransformerExecutorOptions& sizes) {
  uint64_t bytes = plan_host_experts(outline, sizes).cache();
  for (size_t i = 0; i < outline.stages.front().layers.size(); ++i)
    bytes += outline.host_experts_taken_bytes(0, i);
  return bytes;
}

std::vector<StagePlace> places_of(const ModelPlanOptions& options) {
  std::vector<bool> is_host;
  is_host.reserve(options.devices.size());
  for (const ModelDevice& device : layer_devices(options)) is_host.push_back(!device.device->is_card());
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

// Demand of a model in one stage at a place.
struct PlaceDemand {
  std::vector<DeviceDemand> devices;  // of each device of the place
  uint64_t host_experts = 0;          // bytes on the device of the host experts
};

PlaceDemand demand_at(const ModelPlanOptions& options, const StagePlace& place,
                      const std::vector<int32_t>& shares, gsl::span<const int32_t> host_experts, bool crosses,
                      const TransformerExecutorOptions& executor) {
  ModelPlanOptions there = options;
  const gsl::span<const ModelDevice> devices = devices_at(options, place);
  there.devices.assign(devices.begin(), devices.end());
  if (!host_experts.empty()) there.devices.push_back(options.devices[static_cast<size_t>(host_of(options))]);
  Placement placement = empty_placement({{0, place.spreads}}, there.devices.size(), shares);
  placement.device_of_layer = place_on_one_device(options.source->config().num_layers).device_of_layer;
  place_experts(there, host_experts, placement);
  const auto outline = build_outline(*options.source, devices_of(there), placement, options.num_shards,
                                     options.activations, options.draft_source.get());
  PlaceDemand demand;
  demand.host_experts = host_experts_bytes(*outline, executor);
  if (!place.spreads) {
    demand.devices.push_back(demand_of(*outline, crosses, executor));
    return demand;
  }
  demand.devices.reserve(static_cast<size_t>(options.num_shards));
  for (int32_t rank = 0; rank < options.num_shards; ++rank)
    demand.devices.push_back(demand_of_shard(*outline, rank, crosses, executor));
  return demand;
}

// Returns the number of the first device of the same backend.
size_t first_of_backend(const ModelPlanOptions& options, const Device& device) {
  const auto first =
      std::find_if(options.devices.begin(), options.devices.end(),
                   [&](const ModelDevice& other) { return other.device->shares_backend(device); });
  return static_cast<size_t>(first - options.devices.begin());
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

// Plans all layers on the device of another process.
std::shared_ptr<const RemoteLayers> plan_elsewhere(const Device& device, const ModelPlanOptions& options) {
  const SharedModel model{options.source->path(), options.source->identity()};
  const int32_t num_layers = options.source->config().num_layers;
  return device.peer()->build({model, 0, num_layers, options.activations, BuildMode::plan});
}

// Counts what is on the first device of this process and on those of its other shards whatever layers they
// have: the ends of the model, the stages without layers that compute them, and the host's ends of links.
void fix_ends(DeviceCapacity& home, uint64_t link_bytes) {
  DeviceDemand& demand = home.demand;
  home.fixed_bytes = demand.embedding_bytes + demand.head_bytes + 2 * demand.stage_bytes + link_bytes;
  demand.embedding_bytes = demand.head_bytes = 0;
  for (DeviceCapacity& peer : home.peers) fix_ends(peer, 0);
}

// Returns the memory of each place of a stage and the model's demand there. Devices of one backend lay out
// matrices alike, so they share one outline of the model. The host keeps the bytes of the host experts free.
std::vector<DeviceCapacity> capacities(const ModelPlanOptions& options, const std::vector<StagePlace>& places,
                                       const std::vector<int32_t>& shares, const ModelCacheOptions& cache,
                                       gsl::span<const int32_t> host_experts) {
  const gsl::span<const ModelDevice> all = layer_devices(options);
  const Device& first = *all.front().device;
  const bool crosses = std::any_of(all.begin(), all.end(),
                                   [&](const ModelDevice& d) { return !d.device->shares_backend(first); });
  const TransformerExecutorOptions executor = executor_options(options.source->config(), cache);
  std::map<std::pair<size_t, bool>, PlaceDemand> demands;  // by backend, for both kinds of places
  std::vector<DeviceCapacity> rooms;
  uint64_t on_host = 0;
  uint64_t link_bytes = 0;
  for (const StagePlace& place : places) {
    const gsl::span<const ModelDevice> devices = devices_at(options, place);
    if (devices.front().device->is_remote()) {
      const auto layers = plan_elsewhere(*devices.front().device, options);
      const uint64_t own_link_bytes = layers->link_bytes(*options.devices[home_of(options)].device);
      link_bytes += own_link_bytes;
      DeviceDemand elsewhere = demand_of(*layers, executor, own_link_bytes > 0);
      rooms.push_back(capacity_of(devices.front()));  // after an answer, which has the free bytes
      rooms.back().demand = std::move(elsewhere);
      continue;
    }
    PlaceDemand& demand = demands[{first_of_backend(options, *devices.front().device), place.spreads}];
    if (demand.devices.empty()) demand = demand_at(options, place, shares, host_experts, crosses, executor);
    on_host = std::max(on_host, demand.host_experts);
    DeviceCapacity room = capacity_of(devices.front());
    room.demand = demand.devices.front();
    for (size_t r = 1; r < devices.size(); ++r) {
      room.peers.push_back(capacity_of(devices[r]));
      room.peers.back().demand = demand.devices[r];
    }
    rooms.push_back(std::move(room));
  }
  for (DeviceCapacity& room : rooms)
    if (room.is_host) room.reserve_bytes += on_host;
  if (any_remote(options)) fix_ends(rooms[home_of(options)], link_bytes);
  return rooms;
}

// Returns the layers of each place, or throws if their number is not that of the places.
std::vector<int32_t> chosen_split(const ModelPlanOptions& options, size_t num_places) {
  if (options.split.size() == num_places) return options.split;
  const bool are_devices = num_places == layer_devices(options).size();
  throw Error(ErrorCode::invalid_argument, "split: {} numbers for {} {}; give one for each",
              options.split.size(), num_places,
              are_devices ? "devices" : fmt::format("stages of {} devices", options.num_shards))
      .at("split");
}

// Returns a placement on places, numbered in their order.
Placement place_layers(const ModelPlanOptions& options, const std::vector<StagePlace>& places,
                       const std::vector<int32_t>& shares, const ModelCacheOptions& cache,
                       gsl::span<const int32_t> host_experts) {
  const int32_t num_layers = options.source->config().num_layers;
  if (!options.split.empty()) return place_by_counts(chosen_split(options, places.size()), num_layers);
  if (!has_budgets(options)) {
    refuse_twins(options);
    if (places.size() == 1) return place_on_one_device(num_layers);
  }
  return split_automatically(capacities(options, places, shares, cache, host_experts));
}

Placement choose_placement(const ModelPlanOptions& options, const std::vector<int32_t>& shares,
                           const ModelCacheOptions& cache, gsl::span<const int32_t> host_experts) {
  const std::vector<StagePlace> places = places_of(options);
  Placement placement = empty_placement(places, options.devices.size(), shares);
  placement.device_of_layer = place_layers(options, places, shares, cache, host_experts).device_of_layer;
  for (int32_t& device : placement.device_of_layer) device = places[static_cast<size_t>(device)].device;
  place_experts(options, host_experts, placement);
  return placement;
}

// Plans with the experts of the given layers on the host.
ModelPlan plan_placed(const ModelPlanOptions& options, const std::vector<int32_t>& shares,
                      const ModelCacheOptions& cache, gsl::span<const int32_t> host_experts) {
  const ModelConfig& config = options.source->config();
  const Placement placement =
      with_local_ends(choose_placement(options, shares, cache, host_experts), options);
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
      ModelPlan plan = plan_placed(options, {}, cache, layers.first(count));
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
  return best ? std::move(*best) : plan_placed(options, {}, cache, layers);
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

// Plans with even shards, or with shards by the memory of their cards if only those fit.
ModelPlan plan_in_shards(const ModelPlanOptions& options, const ModelCacheOptions& cache) {
  const auto anywhere = [](const ModelDevice&) { return true; };
  std::optional<Error> refusal;
  std::optional<ModelPlan> even;
  try {
    even = plan_placed(options, {}, cache, {});
  } catch (const Error& error) {
    if (error.code() != ErrorCode::out_of_memory) throw;
    refusal = error;
  }
  if (even && fits(*even, options, anywhere)) return std::move(*even);
  const std::vector<int32_t> shares = shares_by_memory(options);
  const bool are_equal = std::equal(shares.begin() + (shares.empty() ? 0 : 1), shares.end(), shares.begin());
  if (!are_equal) {
    try {
      ModelPlan uneven = plan_placed(options, shares, cache, {});
      if (fits(uneven, options, anywhere)) return uneven;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::out_of_memory) throw;
    }
  }
  if (refusal) throw Error(*refusal);
  return std::move(*even);
}

ModelPlan plan_with(const ModelPlanOptions& options, const ModelCacheOptions& cache) {
  const HostExpertsChoice& choice = options.host_experts;
  if (!choice.any()) return plan_in_shards(options, cache);
  const std::vector<int32_t> layers = movable_experts(options);
  if (choice.is_automatic) return plan_with_fewest(options, cache, layers);
  const size_t count = std::min(layers.size(), static_cast<size_t>(choice.num_layers));
  return plan_placed(options, {}, cache, gsl::span<const int32_t>(layers).first(count));
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
