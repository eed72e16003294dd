#include "core/engine/runtime.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"

namespace quire {

std::shared_ptr<Runtime> Runtime::create(RuntimeOptions options) {
  return std::shared_ptr<Runtime>(new Runtime(std::move(options)));
}

namespace {

RuntimeOptions checked(RuntimeOptions options) {
  if (options.clock == nullptr || options.threads == nullptr || options.files == nullptr) {
    throw Error(ErrorCode::invalid_argument, "a runtime needs a clock, threads and a file system");
  }
  return options;
}

}  // namespace

Runtime::Runtime(RuntimeOptions options)
    : options_(checked(std::move(options))), turns_(std::make_shared<TurnArbiter>(*options_.clock)) {
  for (const auto& [device, bytes] : options_.memory_budgets) budgets_[device].limit = bytes;
}

Runtime::~Runtime() = default;

MemoryLease Runtime::lease_memory(const std::string& device, uint64_t bytes, std::string_view what) {
  const MutexLock lock(mutex_);
  DeviceBudget& budget = budgets_[device];
  const uint64_t left = budget.limit - std::min(budget.limit, budget.leased);
  if (budget.limit > 0 && bytes > left) {
    throw Error(ErrorCode::out_of_memory, "{} needs {} bytes of {}, {} of its memory budget of {} are left",
                what, bytes, device, left, budget.limit);
  }
  budget.leased += bytes;
  return {shared_from_this(), device, bytes};
}

uint64_t Runtime::leased_bytes(const std::string& device) const {
  const MutexLock lock(mutex_);
  const auto budget = budgets_.find(device);
  return budget == budgets_.end() ? 0 : budget->second.leased;
}

void Runtime::set_memory_budget(const std::string& device, uint64_t bytes) {
  const MutexLock lock(mutex_);
  budgets_[device].limit = bytes;
}

bool Runtime::has_memory_budget() const {
  const MutexLock lock(mutex_);
  return std::any_of(budgets_.begin(), budgets_.end(), [](const auto& of) { return of.second.limit > 0; });
}

void Runtime::give_back(const std::string& device, uint64_t bytes) noexcept {
  const MutexLock lock(mutex_);
  const auto budget = budgets_.find(device);
  if (budget != budgets_.end()) budget->second.leased -= bytes;
}

MemoryLease::MemoryLease(std::shared_ptr<Runtime> runtime, std::string device, uint64_t bytes)
    : runtime_(std::move(runtime)), device_(std::move(device)), bytes_(bytes) {}

MemoryLease::MemoryLease(MemoryLease&& other) noexcept
    : runtime_(std::move(other.runtime_)),
      device_(std::move(other.device_)),
      bytes_(std::exchange(other.bytes_, 0)) {}

MemoryLease& MemoryLease::operator=(MemoryLease&& other) noexcept {
  std::swap(runtime_, other.runtime_);
  std::swap(device_, other.device_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

MemoryLease::~MemoryLease() {
  if (runtime_ != nullptr) runtime_->give_back(device_, bytes_);
}

}  // namespace quire
