#include "core/engine/model/resident_model.h"

#include <algorithm>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "core/engine/model/out_of_memory.h"

namespace quire {
namespace {

// Returns the number of threads that load in addition to the calling one. On GPUs, which prepare weights
// themselves, the threads only read. On the CPU one thread reads ahead while all others prepare.
int32_t num_load_helpers(const std::vector<ModelDevice>& devices) {
  constexpr int32_t kMostThreads = 8;
  const bool all_host = std::all_of(devices.begin(), devices.end(),
                                    [](const ModelDevice& device) { return !device.device->is_card(); });
  if (all_host) return devices.front().device->info().num_units > 1 ? 1 : 0;
  return std::clamp(static_cast<int32_t>(std::thread::hardware_concurrency()), 1, kMostThreads) - 1;
}

using BytesByDevice = std::map<std::shared_ptr<Device>, uint64_t>;

// Returns the weight bytes of each device. A device may be listed several times.
BytesByDevice weights_of(const ModelPlan& plan, const ModelPlanOptions& options) {
  BytesByDevice bytes;
  for (size_t i = 0; i < options.devices.size(); ++i)
    bytes[options.devices[i].device] += plan.memory.devices[i].weights();
  return bytes;
}

// Returns the free bytes that weights must leave: the reserve, and the memory of the planned cache.
BytesByDevice reserved_bytes(const ModelPlan& plan, const ModelPlanOptions& options) {
  BytesByDevice bytes;
  for (size_t i = 0; i < options.devices.size(); ++i) {
    const MemoryBytes& share = plan.memory.devices[i];
    uint64_t& of_device = bytes[options.devices[i].device];
    of_device = std::max(of_device, options.devices[i].reserve_bytes);
    if (options.cache) of_device += share.total() - share.weights();
  }
  return bytes;
}

// Weights of one model, and the files to load them from.
class ManagedWeights final : public EvictableWeights {
 public:
  ManagedWeights(std::shared_ptr<Runtime> runtime, const ResidentModelOptions& options)
      : runtime_(std::move(runtime)), plan_(options.plan), path_(plan_.source->path()) {
    for (ModelDevice& device : plan_.devices) device.idle_bytes = runtime_->idle_bytes(device.device->name());
  }

  std::shared_ptr<Model> load(const ResidentModelOptions& options);

  void bring(const std::atomic<bool>& stop) override;
  void take_away(ResidencyState to) override;
  const std::string& name() const override { return path_; }
  uint64_t bytes_on(std::string_view device) const override;
  uint64_t remaining_bytes_on(std::string_view device) const override;
  const std::vector<uint64_t>& shard_bytes() const override { return shard_bytes_; }

 private:
  ModelOptions load_options() const;
  ModelPlan plan(ModelOptions& load);
  std::vector<MemoryLease> lease(const BytesByDevice& bytes, const BytesByDevice& reserved_bytes) const;
  bool park();
  void shrink_leases() noexcept;
  void load_parked_weights(const std::atomic<bool>& stop);
  void settle() noexcept;
  void close_source() noexcept;
  template <typename Body>
  auto in_memory(const Body& body) const {
    const auto& [device, bytes] = *bytes_.begin();
    return within_memory("the weights of " + path_, bytes, *device, body);
  }

  const std::shared_ptr<Runtime> runtime_;
  ModelPlanOptions plan_;  // its source is null while the weights are on disk only
  const std::string path_;
  // Declared before the model, so that they are released after its weights. leases_ has one entry for each
  // device of bytes_: all weights, or while they are offloaded the part that stays on the device. returned_
  // has the offloaded part once it is back on the devices, pinned_ the copy in host memory.
  std::vector<MemoryLease> leases_;
  std::vector<MemoryLease> returned_;
  std::optional<MemoryLease> pinned_;
  OffloadedBytes offloaded_;  // empty until the first offload
  std::shared_ptr<Model> model_;
  // Constant once loaded.
  BytesByDevice bytes_;
  std::vector<uint64_t> shard_bytes_;
};

ModelOptions ManagedWeights::load_options() const {
  ModelOptions load;
  load.source = plan_.source;
  for (const ModelDevice& device : plan_.devices) load.devices.push_back(device.device);
  load.num_shards = plan_.num_shards;
  load.activations = plan_.activations;
  load.drafter = plan_.draft_source;
  load.threads = &runtime_->threads();
  load.num_helpers = num_load_helpers(plan_.devices);
  return load;
}

// Plans the load without allocating memory.
ModelPlan ManagedWeights::plan(ModelOptions& load) {
  ModelPlan plan = plan_model(plan_);
  bytes_ = weights_of(plan, plan_);
  load.placement = plan.memory.placement;
  return plan;
}

// Leases the weights' memory on each device. Free memory of a device is promised to only one load at a time.
std::vector<MemoryLease> ManagedWeights::lease(const BytesByDevice& bytes_of,
                                               const BytesByDevice& reserved_bytes) const {
  std::vector<MemoryLease> leases;
  for (const auto& [device, bytes] : bytes_of) {
    MemoryRequest memory_request{device->name(), bytes, "the weights of " + path_};
    memory_request.is_evictable = true;
    memory_request.beside = &leases_;
    const auto kept = reserved_bytes.find(device);
    memory_request.free_bytes = [&of = *device, kept = kept == reserved_bytes.end() ? 0 : kept->second] {
      const uint64_t free_bytes = of.info().free_bytes;
      return free_bytes - std::min(free_bytes, kept);
    };
    leases.push_back(runtime_->lease_memory(memory_request));
  }
  return leases;
}

void ManagedWeights::settle() noexcept {
  for (MemoryLease& lease : leases_) lease.settle();
}

std::shared_ptr<Model> ManagedWeights::load(const ResidentModelOptions& options) {
  ModelOptions load = load_options();
  load.monitor = options.monitor;
  load.without_weights = options.is_lazy;
  const ModelPlan planned = plan(load);
  if (!options.is_lazy) leases_ = lease(bytes_, reserved_bytes(planned, plan_));
  model_ = in_memory([&] { return Model::load(load); });
  shard_bytes_ = model_->shard_bytes();
  if (options.is_lazy) return model_;
  settle();
  return model_;
}

// Returns a function for the host memory that may be pinned: half of the free memory. Null if there is no CPU
// backend to query.
std::function<uint64_t()> pinnable_bytes(const Runtime& runtime) {
  for (const kernels::Backend* backend : runtime.backends()) {
    if (std::string_view(backend->name) != "cpu") continue;
    return [backend] {
      kernels::DeviceOptions options;
      options.num_threads = 1;
      return Device::open(*backend, 0, options)->info().free_bytes / 2;
    };
  }
  return nullptr;
}

// Offloads the weights to host memory; those on the host stay there. Returns false, with all weights still on
// the devices, if a card does not support it or host memory is short.
bool ManagedWeights::park() {
  if (!model_->can_offload()) return false;
  if (!pinned_) {
    MemoryRequest memory_request{kPinnedMemory, 0, "the weights of " + path_};
    for (const auto& [device, bytes] : bytes_)
      if (device->has(kernels::kCapabilityParkedWeights)) memory_request.bytes += bytes;
    memory_request.free_bytes = pinnable_bytes(*runtime_);
    pinned_ = runtime_->lease_pinned(memory_request);
    if (!pinned_) return false;
  }
  try {
    model_->copy_weights(offloaded_);
  } catch (const std::bad_alloc&) {
    return false;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::out_of_memory) return false;
    throw;
  }
  model_->offload_weights(offloaded_);
  returned_.clear();
  shrink_leases();
  return true;
}

// Shrinks the leases after an offload: small tensors stay on the devices, and the host's lease shrinks to the
// size of the copy.
void ManagedWeights::shrink_leases() noexcept {
  uint64_t parked = 0;
  auto lease = leases_.begin();
  for (const auto& [device, taken] : bytes_) {
    parked += offloaded_.at(device.get());
    lease++->shrink(taken - offloaded_.at(device.get()));
  }
  pinned_->shrink(parked);
  pinned_->settle();
}

void ManagedWeights::load_parked_weights(const std::atomic<bool>& stop) {
  BytesByDevice away;
  for (const auto& [device, taken] : bytes_)
    if (offloaded_.at(device.get()) > 0) away[device] = offloaded_.at(device.get());
  std::vector<MemoryLease> leases = lease(away, {});
  in_memory([&] { model_->reload_weights(stop); });
  for (MemoryLease& lease : leases) lease.settle();
  returned_ = std::move(leases);
}

void ManagedWeights::bring(const std::atomic<bool>& stop) {
  if (model_->is_offloaded()) return load_parked_weights(stop);
  const auto back = gsl::finally([this, had_source = plan_.source != nullptr] {
    if (!had_source && leases_.empty()) close_source();
  });
  if (plan_.source == nullptr) {
    plan_.source = open_model_source(runtime_->files(), path_);
    open_drafter(runtime_->files(), plan_);
  }
  leases_ = lease(bytes_, {});
  try {
    ModelOptions load = load_options();
    load.monitor.cancel = &stop;
    in_memory([&] { model_->acquire_weights(load); });
  } catch (...) {
    leases_.clear();
    throw;
  }
  settle();
}

void ManagedWeights::take_away(ResidencyState to) {
  if (to == ResidencyState::standing_by && park()) return;
  model_->release_weights(*plan_.source, plan_.draft_source.get());
  leases_.clear();
  returned_.clear();
  pinned_.reset();
  if (to == ResidencyState::on_disk) close_source();
}

void ManagedWeights::close_source() noexcept {
  plan_.draft_source = nullptr;
  plan_.source = nullptr;
}

uint64_t ManagedWeights::bytes_on(std::string_view device) const {
  uint64_t bytes = 0;
  for (const auto& [of, taken] : bytes_)
    if (of->name() == device) bytes += taken;
  return bytes;
}

uint64_t ManagedWeights::remaining_bytes_on(std::string_view device) const {
  if (leases_.empty()) return 0;
  uint64_t bytes = 0;
  auto lease = leases_.begin();
  for (const auto& [of, taken] : bytes_) {
    if (of->name() == device) bytes += lease->bytes();
    ++lease;
  }
  return bytes;
}

}  // namespace

std::shared_ptr<const ResidentModel> ResidentModel::load(std::shared_ptr<Runtime> runtime,
                                                         const ResidentModelOptions& options) {
  if (options.scope != ModelScope::full) {
    ModelOptions load;
    load.source = options.plan.source;
    load.scope = options.scope;
    load.num_shards = options.plan.num_shards;
    load.drafter = options.plan.draft_source;
    load.monitor = options.monitor;
    return std::shared_ptr<const ResidentModel>(new ResidentModel(Model::load(load), nullptr));
  }
  auto weights = std::make_unique<ManagedWeights>(runtime, options);
  std::shared_ptr<const Model> model = weights->load(options);
  const ResidencyState state = options.is_lazy ? ResidencyState::standing_by : ResidencyState::resident;
  auto residency = WeightResidency::create(std::move(runtime), std::move(weights), state);
  return std::shared_ptr<const ResidentModel>(new ResidentModel(std::move(model), std::move(residency)));
}

ResidentModel::ResidentModel(std::shared_ptr<const Model> model, std::shared_ptr<WeightResidency> residency)
    : residency_(std::move(residency)), model_(std::move(model)) {}

ResidentModel::~ResidentModel() {
  if (residency_ != nullptr) residency_->retire();
}

WeightResidency& ResidentModel::residency() const {
  if (residency_ == nullptr)
    throw Error(ErrorCode::unsupported, "{} was loaded without weights; load it with the full scope",
                model_->path());
  return *residency_;
}

}  // namespace quire
