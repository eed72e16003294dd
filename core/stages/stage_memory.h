// Budget of the memory of a stage's devices.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "core/base/mutex.h"
#include "core/tensor/device.h"

namespace quire {

// Thread-safe. Reservations keep it alive.
class StageMemory : public std::enable_shared_from_this<StageMemory> {
 public:
  // Bytes of one taker, given back by the destructor.
  class Reservation {
   public:
    Reservation() = default;
    Reservation(Reservation&& other) noexcept : memory_(std::move(other.memory_)), bytes_(other.bytes_) {}
    Reservation& operator=(Reservation&& other) noexcept;
    ~Reservation();
    // Changes the bytes. Throws ErrorCode::out_of_memory and then changes nothing.
    void resize(uint64_t bytes, std::string_view what);

   private:
    friend class StageMemory;
    explicit Reservation(std::shared_ptr<StageMemory> memory) : memory_(std::move(memory)) {}
    std::shared_ptr<StageMemory> memory_;
    uint64_t bytes_ = 0;
  };

  // `limit_bytes` is for all takers and devices together; 0: what the devices have. Shards take the same
  // amount of each device, so the device with the least memory limits all.
  StageMemory(std::vector<std::shared_ptr<Device>> devices, uint64_t limit_bytes);

  // Throws ErrorCode::out_of_memory with the bytes that are needed and left.
  Reservation reserve(uint64_t bytes, std::string_view what);
  uint64_t total_bytes() const;
  // Returns the bytes that hosts may take now.
  uint64_t free_bytes() const;
  uint64_t reserved_bytes() const;

 private:
  void change(uint64_t from, uint64_t to, std::string_view what);

  const std::vector<std::shared_ptr<Device>> devices_;
  const uint64_t limit_bytes_;
  // Guards the sum of all reservations.
  mutable Mutex mutex_;
  uint64_t reserved_ QUIRE_GUARDED_BY(mutex_) = 0;
};

}  // namespace quire
