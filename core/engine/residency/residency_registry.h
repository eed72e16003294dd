// The models of one runtime whose weights may leave for others'.
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

// Any thread. Its lock is taken before that of a residency, never after it.
class ResidencyRegistry {
 public:
  void add(WeightResidency& residency);
  void remove(WeightResidency& residency) noexcept;

  // Those on a device, with what their leaving would free.
  struct Found {
    std::shared_ptr<WeightResidency> residency;
    ResidencyCandidate place;
  };
  std::vector<Found> on_device(std::string_view device) const;

  // One of those that stand by gives up what it still holds of a device; false where none does.
  bool give_rest(std::string_view device) const;

  struct Listed {
    uint64_t number = 0;  // of the runtime's models, as they came
    std::string name;
    ResidencyStats figures;
    std::vector<uint64_t> shard_bytes;
  };
  std::vector<Listed> list() const;

  // Memory came free, or some residency is idle now: those that wait for room look again.
  void note_room() noexcept;
  uint64_t room_changes() const { return room_changes_.load(std::memory_order_acquire); }

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
