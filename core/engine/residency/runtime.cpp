#include "core/engine/residency/runtime.h"

#include <algorithm>
#include <utility>

#include <gsl/gsl>

#include "core/base/error.h"

namespace quire {

std::shared_ptr<Runtime> Runtime::create(RuntimeOptions options) {
  return std::shared_ptr<Runtime>(new Runtime(std::move(options)));
}

namespace {

// A switch between caches costs some tenths of a millisecond: waking a thread, and on the CPU cold caches.
constexpr TurnBounds kTurnBounds{.max_lead = 0.1, .slice = 0.004};

RuntimeOptions checked(RuntimeOptions options) {
  if (options.clock == nullptr || options.threads == nullptr || options.files == nullptr) {
    throw Error(ErrorCode::invalid_argument, "a runtime needs a clock, threads and a file system");
  }
  return options;
}

}  // namespace

Runtime::Runtime(RuntimeOptions options)
    : options_(checked(std::move(options))),
      turns_(std::make_shared<TurnArbiter>(*options_.clock, kTurnBounds)) {
  for (const auto& [device, bytes] : options_.memory_budgets) budgets_[device].limit = bytes;
}

Runtime::~Runtime() = default;

Runtime::LeaseAnswer Runtime::try_lease(const MemoryRequest& memory_request) {
  const MutexLock lock(mutex_);
  DeviceBudget& budget = budgets_[memory_request.device];
  std::optional<uint64_t> free_bytes;
  if (memory_request.free_bytes != nullptr) free_bytes = memory_request.free_bytes();
  const MemoryAnswer answer =
      plan_residency({budget.limit, free_bytes, budget.holders}, memory_request.bytes);
  LeaseAnswer result;
  if (answer.fits) {
    MemoryHolder holder{++last_lease_, memory_request.what, memory_request.bytes, free_bytes.has_value(),
                        memory_request.is_evictable};
    budget.holders.reserve(budget.holders.size() + 1);
    result.lease.emplace(MemoryLease(shared_from_this(), memory_request.device, holder));
    budget.holders.push_back(std::move(holder));
    return result;
  }
  const std::string of =
      budget.limit > 0 ? fmt::format("its memory budget of {}", budget.limit) : "its memory";
  result.missing_bytes = memory_request.bytes - answer.left_bytes;
  result.fits_later =
      answer.fits_later && others_suffice({budget.limit, free_bytes, budget.holders}, memory_request);
  result.refusal = fmt::format("{} needs {} bytes of {}, {} of {} are left; used by: {}", memory_request.what,
                               memory_request.bytes, memory_request.device, answer.left_bytes, of,
                               describe_holders(budget.holders));
  return result;
}

// True if the request fits once all evictable holders are gone, except the leases of the same taker.
bool Runtime::others_suffice(const MemoryState& state, const MemoryRequest& memory_request) {
  if (memory_request.beside == nullptr) return true;
  std::vector<MemoryHolder> holders(state.holders.begin(), state.holders.end());
  for (MemoryHolder& holder : holders)
    for (const MemoryLease& own : *memory_request.beside)
      if (holder.id == own.id_) holder.is_evictable = false;
  return plan_residency({state.budget, state.free_bytes, holders}, memory_request.bytes).fits_later;
}

// Chooses idle models to evict. Returns none if evicting them would not suffice.
Runtime::EvictedModels Runtime::choose_models_to_evict(const MemoryRequest& memory_request,
                                                       const LeaseAnswer& answer) const {
  std::vector<ResidencyRegistry::Found> idle = residency_registry_.on_device(memory_request.device);
  std::erase_if(idle, [](const ResidencyRegistry::Found& of) { return !of.place.is_idle; });
  std::vector<EvictionCandidate> candidates;
  candidates.reserve(idle.size());
  for (const ResidencyRegistry::Found& of : idle) candidates.push_back(of.place.candidate);
  EvictedModels leaving;
  for (const size_t place : choose_evictions(candidates, answer.missing_bytes))
    leaving.push_back(idle[place].residency);
  return leaving;
}

// Leases memory and evicts models for it. A model that got a job in the meantime stays, and the choice is
// repeated without it.
MemoryLease Runtime::lease_after_eviction(const MemoryRequest& memory_request, EvictedModels& left) {
  for (;;) {
    LeaseAnswer answer = try_lease(memory_request);
    if (answer.lease) return std::move(*answer.lease);
    if (memory_reclaimers_.ask(memory_request.device, answer.missing_bytes)) continue;
    const size_t num_left = left.size();
    EvictedModels leaving = choose_models_to_evict(memory_request, answer);
    if (leaving.empty()) {
      if (residency_registry_.evict_any_remainder(memory_request.device)) continue;
      if (answer.fits_later) throw RetryableOutOfMemory(ErrorCode::out_of_memory, answer.refusal);
      throw Error(ErrorCode::out_of_memory, answer.refusal);
    }
    for (auto& residency : leaving) {
      left.reserve(left.size() + 1);
      if (residency->evict_if_idle()) left.push_back(std::move(residency));
    }
    if (left.size() == num_left) throw RetryableOutOfMemory(ErrorCode::out_of_memory, answer.refusal);
  }
}

MemoryLease Runtime::lease_memory(const MemoryRequest& memory_request) {
  EvictedModels left;  // destroyed after the lock is released
  const auto tell = gsl::finally([&] {
    for (const auto& residency : left)
      log()(LogLevel::info, "the weights of {} are evicted from {} for {}", residency->name(),
            memory_request.device, memory_request.what);
  });
  const MutexLock room(reclaim_mutex_);
  return lease_after_eviction(memory_request, left);
}

std::optional<MemoryLease> Runtime::try_lease_free(const MemoryRequest& memory_request) {
  const std::unique_lock<std::mutex> room(reclaim_mutex_.native(), std::try_to_lock);
  return room.owns_lock() ? try_lease(memory_request).lease : std::nullopt;
}

uint64_t Runtime::idle_bytes(const std::string& device) const {
  uint64_t bytes = 0;
  for (const ResidencyRegistry::Found& of : residency_registry_.on_device(device))
    if (of.place.is_idle) bytes += of.place.candidate.bytes;
  return bytes;
}

uint64_t Runtime::leased_bytes(const std::string& device) const {
  const MutexLock lock(mutex_);
  const auto budget = budgets_.find(device);
  uint64_t leased = 0;
  if (budget == budgets_.end()) return leased;
  for (const MemoryHolder& holder : budget->second.holders) leased += holder.bytes;
  return leased;
}

std::map<std::pair<std::string, std::string>, uint64_t> Runtime::leases_by_taker() const {
  std::map<std::pair<std::string, std::string>, uint64_t> leases;
  const MutexLock lock(mutex_);
  for (const auto& [device, budget] : budgets_)
    for (const MemoryHolder& holder : budget.holders) leases[{device, holder.name}] += holder.bytes;
  return leases;
}

void Runtime::set_memory_budget(const std::string& device, uint64_t bytes) {
  {
    const MutexLock lock(mutex_);
    budgets_[device].limit = bytes;
  }
  residency_registry_.note_freed_memory();
}

void Runtime::give_back(const std::string& device, uint64_t id) noexcept {
  {
    const MutexLock lock(mutex_);
    const auto budget = budgets_.find(device);
    if (budget != budgets_.end())
      std::erase_if(budget->second.holders, [id](const MemoryHolder& holder) { return holder.id == id; });
  }
  residency_registry_.note_freed_memory();
}

void Runtime::shrink(const std::string& device, uint64_t id, uint64_t bytes) noexcept {
  {
    const MutexLock lock(mutex_);
    const auto budget = budgets_.find(device);
    if (budget == budgets_.end()) return;
    for (MemoryHolder& holder : budget->second.holders) {
      if (holder.id == id) holder.bytes = bytes;
    }
  }
  residency_registry_.note_freed_memory();
}

void Runtime::settle(const std::string& device, uint64_t id) noexcept {
  const MutexLock lock(mutex_);
  const auto budget = budgets_.find(device);
  if (budget == budgets_.end()) return;
  for (MemoryHolder& holder : budget->second.holders) {
    if (holder.id == id) holder.is_reserved = false;
  }
}

MemoryLease::MemoryLease(std::shared_ptr<Runtime> runtime, std::string device, const MemoryHolder& holder)
    : runtime_(std::move(runtime)), device_(std::move(device)), id_(holder.id), bytes_(holder.bytes) {}

MemoryLease::MemoryLease(MemoryLease&& other) noexcept
    : runtime_(std::move(other.runtime_)),
      device_(std::move(other.device_)),
      id_(std::exchange(other.id_, 0)),
      bytes_(std::exchange(other.bytes_, 0)) {}

MemoryLease& MemoryLease::operator=(MemoryLease&& other) noexcept {
  std::swap(runtime_, other.runtime_);
  std::swap(device_, other.device_);
  std::swap(id_, other.id_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

void MemoryLease::settle() noexcept {
  if (runtime_ != nullptr) runtime_->settle(device_, id_);
}

void MemoryLease::shrink(uint64_t bytes) noexcept {
  bytes_ = std::min(bytes_, bytes);
  if (runtime_ != nullptr) runtime_->shrink(device_, id_, bytes_);
}

MemoryLease::~MemoryLease() {
  if (runtime_ != nullptr) runtime_->give_back(device_, id_);
}

}  // namespace quire
