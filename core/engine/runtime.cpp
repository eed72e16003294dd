#include "core/engine/runtime.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"

namespace quire {

std::shared_ptr<Runtime> Runtime::create(RuntimeOptions options) {
  return std::shared_ptr<Runtime>(new Runtime(std::move(options)));
}

namespace {

// A hand-over costs some tenths of a millisecond: a wake of a thread, and on the CPU what lay in its caches.
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

MemoryLease Runtime::lease_memory(const std::string& device, uint64_t bytes, std::string_view what,
                                  std::optional<uint64_t> free_bytes) {
  const MutexLock lock(mutex_);
  DeviceBudget& budget = budgets_[device];
  const MemoryAnswer answer = plan_residency({budget.limit, free_bytes, budget.holders}, bytes);
  if (!answer.fits) {
    const std::string of =
        budget.limit > 0 ? fmt::format("its memory budget of {}", budget.limit) : "its memory";
    throw Error(ErrorCode::out_of_memory, "{} needs {} bytes of {}, {} of {} are left; held by: {}", what,
                bytes, device, answer.left_bytes, of, tell_holders(budget.holders));
  }
  MemoryHolder holder{++last_lease_, std::string(what), bytes, free_bytes.has_value()};
  budget.holders.push_back(holder);
  return {shared_from_this(), device, holder};
}

uint64_t Runtime::leased_bytes(const std::string& device) const {
  const MutexLock lock(mutex_);
  const auto budget = budgets_.find(device);
  uint64_t leased = 0;
  if (budget == budgets_.end()) return leased;
  for (const MemoryHolder& holder : budget->second.holders) leased += holder.bytes;
  return leased;
}

void Runtime::set_memory_budget(const std::string& device, uint64_t bytes) {
  const MutexLock lock(mutex_);
  budgets_[device].limit = bytes;
}

bool Runtime::has_memory_budget() const {
  const MutexLock lock(mutex_);
  return std::any_of(budgets_.begin(), budgets_.end(), [](const auto& of) { return of.second.limit > 0; });
}

void Runtime::give_back(const std::string& device, uint64_t id) noexcept {
  const MutexLock lock(mutex_);
  const auto budget = budgets_.find(device);
  if (budget != budgets_.end())
    std::erase_if(budget->second.holders, [id](const MemoryHolder& holder) { return holder.id == id; });
}

void Runtime::settle(const std::string& device, uint64_t id) noexcept {
  const MutexLock lock(mutex_);
  const auto budget = budgets_.find(device);
  if (budget == budgets_.end()) return;
  for (MemoryHolder& holder : budget->second.holders) {
    if (holder.id == id) holder.is_promised = false;
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

MemoryLease::~MemoryLease() {
  if (runtime_ != nullptr) runtime_->give_back(device_, id_);
}

}  // namespace quire
