// Services and memory budgets shared by the models and caches of one host. There is no global state: two
// runtimes are independent of each other.
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

// The interfaces default to those of the machine. Objects that are passed must outlive the runtime.
struct RuntimeOptions {
  const Clock* clock = &steady_clock();
  const ThreadFactory* threads = &system_threads();
  const FileSystem* files = &posix_file_system();
  Log log;
  std::vector<const kernels::Backend*> backends;  // in order of preference
  // Limits for weights and caches together, by device name; 0 or no entry: no limit.
  std::map<std::string, uint64_t, std::less<>> memory_budgets;
};

class Runtime;
class MemoryLease;

// Name of the budget for the host memory of offloaded weights.
inline constexpr const char* kPinnedMemory = "pinned";

// Request for memory of a device.
struct MemoryRequest {
  std::string device;
  uint64_t bytes = 0;
  std::string what;  // the user of the memory, such as "the weights of story-15m"
  // Function that returns the free bytes of the device without its reserve; null: only the budget counts. A
  // lease of these bytes counts as a promise until it is settled, so that two loads at the same time cannot
  // both use them.
  std::function<uint64_t()> free_bytes = nullptr;
  bool is_evictable = false;  // can be evicted for others, or freed by a cache once its jobs have ended
  // Leases of the same taker, which cannot be evicted for it.
  const std::vector<MemoryLease>* beside = nullptr;
};

// Function that returns the memory of the first num_pages pages of a cache, one request for each device.
using PageMemory = std::function<std::vector<MemoryRequest>(int32_t num_pages)>;

// Share of a runtime's memory budget, released by the destructor. Keeps the runtime alive.
class MemoryLease {
 public:
  MemoryLease() = default;
  MemoryLease(MemoryLease&& other) noexcept;
  MemoryLease& operator=(MemoryLease&& other) noexcept;
  ~MemoryLease();
  uint64_t bytes() const { return bytes_; }
  // Called once the bytes are allocated, so that the device no longer reports them as free.
  void settle() noexcept;
  // Releases all but `bytes` bytes.
  void shrink(uint64_t bytes) noexcept;

 private:
  friend class Runtime;
  MemoryLease(std::shared_ptr<Runtime> runtime, std::string device, const MemoryHolder& holder);

  std::shared_ptr<Runtime> runtime_;
  std::string device_;
  uint64_t id_ = 0;
  uint64_t bytes_ = 0;
};

// Thread-safe. Models and caches keep their runtime alive, so they can be closed in any order.
class Runtime : public std::enable_shared_from_this<Runtime> {
 public:
  static std::shared_ptr<Runtime> create(RuntimeOptions options);
  ~Runtime();

  const Clock& clock() const { return *options_.clock; }
  const ThreadFactory& threads() const { return *options_.threads; }
  const FileSystem& files() const { return *options_.files; }
  const Log& log() const { return options_.log; }
  // Arbiter between the caches that compute on the same device.
  const std::shared_ptr<TurnArbiter>& turns() const { return turns_; }
  const std::vector<const kernels::Backend*>& backends() const { return options_.backends; }

  // Models whose weights can be evicted.
  ResidencyRegistry& residency_registry() const { return residency_registry_; }
  // Caches whose unused pages can be freed.
  MemoryReclaimers& memory_reclaimers() const { return memory_reclaimers_; }

  // Leases memory. If the budget or the device's free memory is too small, frees memory in this order: unused
  // pages of elastic caches, weights of idle models (which is logged), and the parts that offloaded models
  // still have on the device. Throws ErrorCode::out_of_memory with the bytes needed and left and a list of
  // the users; RetryableOutOfMemory if evicting models that are busy now would suffice.
  MemoryLease lease_memory(const MemoryRequest& memory_request);
  // Leases memory at once, without freeing any. Returns nothing if memory is short or is being freed for
  // another lease.
  std::optional<MemoryLease> try_lease_free(const MemoryRequest& memory_request);
  // Leases memory of kPinnedMemory at once, or returns nothing. Evicts nothing, and works while device memory
  // is freed for another lease.
  std::optional<MemoryLease> lease_pinned(const MemoryRequest& memory_request) {
    return try_lease(memory_request).lease;
  }
  // Returns the bytes of idle models on a device.
  uint64_t idle_bytes(const std::string& device) const;
  uint64_t leased_bytes(const std::string& device) const;
  // Returns the leased bytes by device and taker. Leases with the same taker are summed up.
  std::map<std::pair<std::string, std::string>, uint64_t> leases_by_taker() const;
  // Leases that exceed the new budget stay.
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
  // A lease, or the reason why there is none.
  struct LeaseAnswer {
    std::optional<MemoryLease> lease;
    uint64_t missing_bytes = 0;
    bool fits_later = false;
    std::string refusal;
  };
  using EvictedModels = std::vector<std::shared_ptr<WeightResidency>>;

  LeaseAnswer try_lease(const MemoryRequest& memory_request);
  MemoryLease lease_after_eviction(const MemoryRequest& memory_request, EvictedModels& left)
      QUIRE_REQUIRES(reclaim_mutex_);
  static bool others_suffice(const MemoryState& state, const MemoryRequest& memory_request);
  EvictedModels choose_models_to_evict(const MemoryRequest& memory_request, const LeaseAnswer& answer) const;

  const RuntimeOptions options_;
  const std::shared_ptr<TurnArbiter> turns_;
  mutable ResidencyRegistry residency_registry_;
  mutable MemoryReclaimers memory_reclaimers_;
  // Held while memory is freed for a request, so that no other request takes it. Taken before all other
  // locks.
  Mutex reclaim_mutex_;
  mutable Mutex mutex_;
  std::map<std::string, DeviceBudget, std::less<>> budgets_ QUIRE_GUARDED_BY(mutex_);
  uint64_t last_lease_ QUIRE_GUARDED_BY(mutex_) = 0;
};

}  // namespace quire
