// Models of one runtime whose weights can be evicted.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/mutex.h"
#include "core/engine/residency/weight_residency.h"

namespace quire {

// Thread-safe. Lock order: its lock is taken before the lock of a residency, never after it.
class ResidencyRegistry {
 public:
  void add(WeightResidency& residency);
  void remove(WeightResidency& residency) noexcept;

  // A residency on a device, with the bytes that its eviction would free.
  struct Found {
    std::shared_ptr<WeightResidency> residency;
    ResidencyCandidate place;
  };
  std::vector<Found> on_device(std::string_view device) const;

  // Frees the part that one offloaded model still has on a device. Returns false if there is none.
  bool evict_any_remainder(std::string_view device) const;

  struct Listed {
    uint64_t number = 0;  // number of the model in the runtime, in order of creation
    std::string name;
    ResidencyStats figures;
    std::vector<uint64_t> shard_bytes;
  };
  std::vector<Listed> list() const;

  // Called when memory became free or a model became idle: loads that wait for memory are tried again.
  void note_freed_memory() noexcept;
  uint64_t num_memory_changes() const { return room_changes_.load(std::memory_order_acquire); }

 private:
  std::atomic<uint64_t> room_changes_{0};
  mutable Mutex mutex_;
  struct Known {
    uint64_t number;
    WeightResidency* residency;
  };
  std::vector<std::shared_ptr<WeightResidency>> living() const;

  std::vector<Known> all_ QUIRE_GUARDED_BY(mutex_);
  uint64_t num_added_ QUIRE_GUARDED_BY(mutex_) = 0;
};

}  // namespace quire
