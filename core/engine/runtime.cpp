#include "core/engine/runtime.h"

#include <utility>

#include "core/base/error.h"

namespace quire {

std::shared_ptr<Runtime> Runtime::create(RuntimeOptions options) {
  return std::shared_ptr<Runtime>(new Runtime(std::move(options)));
}

Runtime::Runtime(RuntimeOptions options) : options_(std::move(options)) {
  if (options_.clock == nullptr || options_.threads == nullptr || options_.files == nullptr) {
    throw Error(ErrorCode::invalid_argument, "a runtime needs a clock, threads and a file system");
  }
}

Runtime::~Runtime() = default;

MemoryLease Runtime::lease_memory(uint64_t bytes, std::string_view what) {
  const MutexLock lock(mutex_);
  const uint64_t budget = options_.memory_budget_bytes;
  if (budget > 0 && bytes > budget - leased_bytes_) {
    throw Error(ErrorCode::out_of_memory, "{} needs {} bytes, {} of the memory budget of {} are left", what,
                bytes, budget - leased_bytes_, budget);
  }
  leased_bytes_ += bytes;
  return {shared_from_this(), bytes};
}

uint64_t Runtime::leased_bytes() const {
  const MutexLock lock(mutex_);
  return leased_bytes_;
}

void Runtime::give_back(uint64_t bytes) noexcept {
  const MutexLock lock(mutex_);
  leased_bytes_ -= bytes;
}

MemoryLease::MemoryLease(std::shared_ptr<Runtime> runtime, uint64_t bytes)
    : runtime_(std::move(runtime)), bytes_(bytes) {}

MemoryLease::MemoryLease(MemoryLease&& other) noexcept
    : runtime_(std::move(other.runtime_)), bytes_(std::exchange(other.bytes_, 0)) {}

MemoryLease& MemoryLease::operator=(MemoryLease&& other) noexcept {
  std::swap(runtime_, other.runtime_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

MemoryLease::~MemoryLease() {
  if (runtime_ != nullptr) runtime_->give_back(bytes_);
}

}  // namespace quire
