// What the models and caches of one host share. There is no global state: two runtimes do not know each
// other.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/base/file_system.h"
#include "core/base/log.h"
#include "core/base/mutex.h"
#include "core/base/thread.h"
#include "core/engine/residency/memory_reclaimers.h"
#include "core/engine/residency/residency_registry.h"
#include "core/engine/turns/turn_arbiter.h"
#include "core/memory/residency.h"
#include "core/tensor/device.h"

namespace quire {

// The seams default to the machine. What they point to outlives the runtime.
struct RuntimeOptions {
  const Clock* clock = &steady_clock();
  const ThreadFactory* threads = &system_threads();
  const FileSystem* files = &posix_file_system();
  Log log;
  std::vector<const kernels::Backend*> backends;  // in order of preference
  // For weights and caches together, by the name of the device; 0 and none are no limit.
  std::map<std::string, uint64_t, std::less<>> memory_budgets;
};

class Runtime;
class MemoryLease;

// The host memory that weights stand by in, by the name that its budget has.
inline constexpr const char* kPinnedMemory = "pinned";

// Some bytes of a device for one taker.
struct MemoryRequest {
  std::string device;
  uint64_t bytes = 0;
  std::string what;  // the taker, as in "the weights of story-15m"
  // What the device has now beside what is to be left alone; none: a budget alone decides. A lease that was
  // given of these bytes is a promise until it is settled, so that two that load at once cannot both count on
  // the same bytes.
  std::function<uint64_t()> free_bytes = nullptr;
  bool may_leave = false;  // may be given up for others: by a residency, or by a cache once its jobs are over
  const std::vector<MemoryLease>* beside = nullptr;  // of the same taker: no room comes of their leaving
};

// What the first pages of a cache take, a wish for each of its devices.
using PageMemory = std::function<std::vector<MemoryRequest>(int32_t num_pages)>;

// A share of a runtime's memory budget, given back on destruction. Keeps the runtime alive.
class MemoryLease {
 public:
  MemoryLease() = default;
  MemoryLease(MemoryLease&& other) noexcept;
  MemoryLease& operator=(MemoryLease&& other) noexcept;
  ~MemoryLease();
  uint64_t bytes() const { return bytes_; }
  // The bytes have been taken of the device: what it says is free has them no more.
  void settle() noexcept;
  // Gives back all but so many.
  void shrink(uint64_t bytes) noexcept;

 private:
  friend class Runtime;
  MemoryLease(std::shared_ptr<Runtime> runtime, std::string device, const MemoryHolder& holder);

  std::shared_ptr<Runtime> runtime_;
  std::string device_;
  uint64_t id_ = 0;
  uint64_t bytes_ = 0;
};

// Any thread may call anything. Models and caches keep their runtime alive, so closing order does not matter.
class Runtime : public std::enable_shared_from_this<Runtime> {
 public:
  static std::shared_ptr<Runtime> create(RuntimeOptions options);
  // Reports models and caches that are still alive through the log.
  ~Runtime();

  const Clock& clock() const { return *options_.clock; }
  const ThreadFactory& threads() const { return *options_.threads; }
  const FileSystem& files() const { return *options_.files; }
  const Log& log() const { return options_.log; }
  // By which caches that compute on one device follow one another.
  const std::shared_ptr<TurnArbiter>& turns() const { return turns_; }
  const std::vector<const kernels::Backend*>& backends() const { return options_.backends; }

  // The models whose weights may leave for others'.
  ResidencyRegistry& residency_registry() const { return residency_registry_; }
  // The caches whose pages may.
  MemoryReclaimers& memory_reclaimers() const { return memory_reclaimers_; }

  // Where the budget is too small, or the device with what is promised to others, caches give pages that
  // nobody uses for it, models that nobody uses leave, which the log tells, and at last those that stand by
  // give up what they still hold. Throws ErrorCode::out_of_memory with the bytes wanted and left, and who
  // holds the others; RetryableOutOfMemory where models that compute or move now would leave enough.
  MemoryLease lease_memory(const MemoryRequest& wish);
  // Without that, at once; none where there is no room, or while room is made for somebody.
  std::optional<MemoryLease> lease_if_free(const MemoryRequest& wish);
  // Of kPinnedMemory, for which nobody leaves: at once, or none. Also while room is made on a device.
  std::optional<MemoryLease> lease_pinned(const MemoryRequest& wish) { return try_lease(wish).lease; }
  // What models that nobody uses hold of a device.
  uint64_t idle_bytes(const std::string& device) const;
  uint64_t leased_bytes(const std::string& device) const;
  // Bytes by device and taker; those of one name together.
  std::map<std::pair<std::string, std::string>, uint64_t> leases_by_taker() const;
  // What is leased beyond it already stays leased.
  void set_memory_budget(const std::string& device, uint64_t bytes);

 private:
  friend class MemoryLease;
  explicit Runtime(RuntimeOptions options);
  void give_back(const std::string& device, uint64_t id) noexcept;
  void settle(const std::string& device, uint64_t id) noexcept;
  void shrink(const std::string& device, uint64_t id, uint64_t bytes) noexcept;

  struct DeviceBudget {
    uint64_t limit = 0;
    std::vector<MemoryHolder> holders;
  };
  // A lease, or what there is instead, in words.
  struct LeaseAnswer {
    std::optional<MemoryLease> lease;
    uint64_t missing_bytes = 0;
    bool fits_later = false;
    std::string refusal;
  };
  using Leaving = std::vector<std::shared_ptr<WeightResidency>>;

  LeaseAnswer try_lease(const MemoryRequest& wish);
  MemoryLease lease_with_room(const MemoryRequest& wish, Leaving& left) QUIRE_REQUIRES(room_mutex_);
  static bool others_suffice(const MemoryState& state, const MemoryRequest& wish);
  Leaving choose_leaving(const MemoryRequest& wish, const LeaseAnswer& answer) const;

  const RuntimeOptions options_;
  const std::shared_ptr<TurnArbiter> turns_;
  mutable ResidencyRegistry residency_registry_;
  mutable MemoryReclaimers memory_reclaimers_;
  // What is made room for goes to the one for which it was made. Taken before all others.
  Mutex room_mutex_;
  mutable Mutex mutex_;
  std::map<std::string, DeviceBudget, std::less<>> budgets_ QUIRE_GUARDED_BY(mutex_);
  uint64_t last_lease_ QUIRE_GUARDED_BY(mutex_) = 0;
};

}  // namespace quire
