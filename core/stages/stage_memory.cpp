#include "core/stages/stage_memory.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"

namespace quire {
namespace {

// Returns an amount of the device with the least of it, times the number of devices.
uint64_t least_of_each(const std::vector<std::shared_ptr<Device>>& devices,
                       uint64_t kernels::DeviceInfo::*amount) {
  uint64_t least = devices.front()->info().*amount;
  for (size_t i = 1; i < devices.size(); ++i) least = std::min(least, devices[i]->info().*amount);
  return least * devices.size();
}

}  // namespace

StageMemory::StageMemory(std::vector<std::shared_ptr<Device>> devices, uint64_t limit_bytes)
    : devices_(std::move(devices)), limit_bytes_(limit_bytes) {}

StageMemory::Reservation& StageMemory::Reservation::operator=(Reservation&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

StageMemory::Reservation::~Reservation() {
  if (memory_ != nullptr) memory_->change(bytes_, 0, {});
}

void StageMemory::Reservation::resize(uint64_t bytes, std::string_view what) {
  memory_->change(bytes_, bytes, what);
  bytes_ = bytes;
}

StageMemory::Reservation StageMemory::reserve(uint64_t bytes, std::string_view what) {
  Reservation reservation(shared_from_this());
  reservation.resize(bytes, what);
  return reservation;
}

void StageMemory::change(uint64_t from, uint64_t to, std::string_view what) {
  const MutexLock lock(mutex_);
  const uint64_t others = reserved_ - from;
  const uint64_t left = limit_bytes_ > others ? limit_bytes_ - others : 0;
  if (to > from && limit_bytes_ > 0 && to > left) {
    throw Error(
        ErrorCode::out_of_memory,
        "{} need {} bytes, but {} of the {} that the stage may use are left; give it more with --memory",
        what, to, left, limit_bytes_);
  }
  reserved_ = others + to;
}

uint64_t StageMemory::total_bytes() const {
  const uint64_t total = least_of_each(devices_, &kernels::DeviceInfo::total_bytes);
  return limit_bytes_ > 0 ? std::min(limit_bytes_, total) : total;
}

uint64_t StageMemory::free_bytes() const {
  const uint64_t free_bytes = least_of_each(devices_, &kernels::DeviceInfo::free_bytes);
  if (limit_bytes_ == 0) return free_bytes;
  const uint64_t reserved = reserved_bytes();
  return std::min(free_bytes, limit_bytes_ - std::min(limit_bytes_, reserved));
}

uint64_t StageMemory::reserved_bytes() const {
  const MutexLock lock(mutex_);
  return reserved_;
}

}  // namespace quire
