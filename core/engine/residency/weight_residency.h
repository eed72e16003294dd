// Residency of one model's weights: loads, offloads and evicts them while caches and jobs stay alive.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/clock.h"
#include "core/base/engine_signal.h"
#include "core/base/error.h"
#include "core/base/mutex.h"
#include "core/base/wait.h"
#include "core/memory/residency.h"

namespace quire {

class Runtime;

enum class ResidencyState : int32_t {
  resident = 1,     // on its devices
  standing_by = 2,  // not on its devices, with its files open: the same weights are loaded again
  on_disk = 3,      // not on its devices, with its files closed
  moving = 4,
};

// Memory is short now, but evicting models that are busy would suffice.
class RetryableOutOfMemory : public Error {
 public:
  using Error::Error;
};

// Weights that can be evicted. Calls of bring and take_away never overlap.
class EvictableWeights {
 public:
  virtual ~EvictableWeights() = default;
  // Allocates the memory and loads the weights. Setting `stop` ends it with ErrorCode::cancelled. Throws
  // RetryableOutOfMemory or the errors of a load; then nothing stays allocated.
  virtual void bring(const std::atomic<bool>& stop) = 0;
  // Frees the memory of the weights, which are not in use. `to` is standing_by or on_disk. If it throws,
  // nothing has changed. A second call with standing_by, without a load in between, also frees the part that
  // the first one left on the devices.
  virtual void take_away(ResidencyState to) = 0;
  // Returns the bytes that stay on a device while the weights are standing by.
  virtual uint64_t remaining_bytes_on(std::string_view) const { return 0; }
  // Thread-safe: the name, as in "the weights of NAME", and the bytes of a device that evicting them frees.
  virtual const std::string& name() const = 0;
  virtual uint64_t bytes_on(std::string_view device) const = 0;
  // Returns the bytes of each shard on the devices while resident.
  virtual const std::vector<uint64_t>& shard_bytes() const = 0;
};

struct ResidencyStats {
  ResidencyState state = ResidencyState::resident;
  uint64_t waits = 0;         // how often a cache with jobs had to wait for the weights
  uint64_t wakes = 0;         // successful loads after the first one
  uint64_t failed_wakes = 0;  // excluding those that waited for memory
  uint64_t evictions = 0;
  Duration last_wake{0};  // duration of the last load
  Duration all_wakes{0};
};

// Candidate for eviction, and whether it is idle now.
struct ResidencyCandidate {
  EvictionCandidate candidate;
  bool is_idle = false;
};

// Thread-safe. While its lock is held, no weights are moved and only signals are notified.
class WeightResidency : public std::enable_shared_from_this<WeightResidency> {
 public:
  // Creates a residency and registers it with the runtime, which may evict the weights while they are unused.
  static std::shared_ptr<WeightResidency> create(std::shared_ptr<Runtime> runtime,
                                                 std::unique_ptr<EvictableWeights> weights,
                                                 ResidencyState state);
  ~WeightResidency();

  const std::string& name() const { return weights_->name(); }
  const std::vector<uint64_t>& shard_bytes() const { return weights_->shard_bytes(); }
  ResidencyState state() const;
  ResidencyStats figures() const;

  // Loads the weights and waits until they are resident. A load continues if the wait ends early. Throws the
  // error of that load.
  WaitEnd wake(const Wait& wait);
  // Evicts the weights once no cache has jobs. `to` is standing_by or on_disk. If the wait ends early, the
  // weights stay. Throws if the files do not suffice to load the weights again.
  WaitEnd evict(ResidencyState to, const Wait& wait);
  // Models with the lowest priority are evicted first when another model needs memory.
  void set_priority(int32_t priority);
  // Idle time after which the weights are evicted to standing_by; 0: never. The thread of a cache checks it.
  void set_idle_timeout(Duration timeout);
  // Called when the model is no longer used: cancels a load that is in progress.
  void retire() noexcept;

  // Registers a cache. `signal` is notified when calling enter again may succeed.
  void add_listener(std::shared_ptr<EngineSignal> signal);
  void remove_listener(const EngineSignal* signal) noexcept;
  // Returns true if the weights are resident; they then stay until `leave`. Otherwise requests them and
  // returns false. Throws the error of a requested load once; the next call requests another one. `asked` is
  // the caller's, 0 at first.
  bool enter(uint64_t& asked);
  void leave() noexcept;
  // Withdraws the request in `asked`: the caller will not enter, so the weights need not stay for it.
  void withdraw(uint64_t& asked) noexcept;
  // Returns when to call leave_if_idle next; max(): never.
  TimePoint idle_deadline() const;
  void evict_if_timed_out(TimePoint now) noexcept;

  // Returns true if the weights are resident now; they then stay until `leave`.
  bool stay() noexcept;

  // Returns the bytes that an eviction would free, for the planner; nothing unless the weights are resident.
  std::optional<ResidencyCandidate> place_on(std::string_view device) const;
  // Evicts the weights to standing_by. Returns false if they are used or waited for, or if it fails.
  bool evict_if_idle() noexcept;
  // Frees the part of standing-by weights that is still on a device. Returns false if there is none or if it
  // fails.
  bool evict_remainder(std::string_view device) noexcept;
  // Called when memory became free: a load that waits for memory is tried again.
  void note_freed_memory() noexcept;

 private:
  WeightResidency(std::shared_ptr<Runtime> runtime, std::unique_ptr<EvictableWeights> weights,
                  ResidencyState state);

  enum class Attempt : int32_t { not_needed, under_way, started };
  Attempt ask(uint64_t& asked, int32_t num_users);
  void start();
  void run_wake() noexcept;
  void end_wake(ErrorCode code, std::string_view message) noexcept;
  // Changes the state to moving. Returns the previous state.
  ResidencyState begin_eviction() QUIRE_REQUIRES(mutex_);
  // Completes an eviction after begin_leaving. Returns false if it failed, which changes nothing.
  bool offload_from(ResidencyState from) noexcept;
  void take_away(ResidencyState from, ResidencyState to);
  void tell() noexcept QUIRE_REQUIRES(mutex_);
  bool is_idle() const noexcept QUIRE_REQUIRES(mutex_);
  bool is_away() const noexcept QUIRE_REQUIRES(mutex_);
  uint64_t num_changes() const;

  // Change of the state that is in progress.
  struct Move {
    ResidencyState before = ResidencyState::resident;
    bool is_waking = false;
  };
  // Users of the weights, and the settings for eviction.
  struct Use {
    int32_t num_users = 0;
    int32_t num_waiting = 0;  // caches that requested the weights and have not entered
    int32_t priority = 0;
    Duration idle_timeout{0};
    TimePoint last_used;
  };
  // Attempts to load the weights, by number.
  struct Wakes {
    uint64_t last = 0;  // last one that was started
    uint64_t failed = 0;
    ErrorCode failure = ErrorCode::ok;
    std::string failure_message;
    bool waits_for_memory = false;
    uint64_t memory_changes_seen = 0;  // room_changes when the last attempt found no memory
  };

  const std::shared_ptr<Runtime> runtime_;
  const std::unique_ptr<EvictableWeights> weights_;
  std::atomic<bool> stop_{false};

  // Guards the state of the weights, their users and waiting caches.
  mutable Mutex mutex_;
  std::condition_variable condition_;
  ResidencyState state_ QUIRE_GUARDED_BY(mutex_);
  Move move_ QUIRE_GUARDED_BY(mutex_);
  Use use_ QUIRE_GUARDED_BY(mutex_);
  Wakes wakes_ QUIRE_GUARDED_BY(mutex_);
  uint64_t num_changes_ QUIRE_GUARDED_BY(mutex_) = 0;  // number of changes of the state
  std::vector<std::shared_ptr<EngineSignal>> listeners_ QUIRE_GUARDED_BY(mutex_);
  ResidencyStats figures_ QUIRE_GUARDED_BY(mutex_);
};

// Prevents the eviction of resident weights during its lifetime.
class ResidencyGuard {
 public:
  // `residency` may be null.
  explicit ResidencyGuard(std::shared_ptr<WeightResidency> residency)
      : residency_(residency != nullptr && residency->stay() ? std::move(residency) : nullptr) {}
  ResidencyGuard(const ResidencyGuard&) = delete;
  ResidencyGuard& operator=(const ResidencyGuard&) = delete;
  ~ResidencyGuard() {
    if (residency_ != nullptr) residency_->leave();
  }

  // True if the weights were resident and stay so.
  bool holds() const { return residency_ != nullptr; }

 private:
  const std::shared_ptr<WeightResidency> residency_;
};

}  // namespace quire
