// Where the weights of one model are, and how they leave their devices and come back while caches and jobs
// stay.
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
  standing_by = 2,  // off them, with its files open: what comes back is what was there
  on_disk = 3,      // off them, with its files closed
  moving = 4,
};

// A lease that is refused now, and would not be if models that compute left: out_of_memory.
class RetryableOutOfMemory : public Error {
 public:
  using Error::Error;
};

// What moves. Calls of the first two follow one another.
class EvictableWeights {
 public:
  virtual ~EvictableWeights() = default;
  // Takes the memory and fills it; `stop` turned on ends it with ErrorCode::cancelled. Throws
  // RetryableOutOfMemory, or what a load throws; nothing stays taken then.
  virtual void bring(const std::atomic<bool>& stop) = 0;
  // Gives the memory back; nobody uses it. `to` is standing_by or on_disk. What it throws leaves all as it
  // was. To standing_by a second time, without a way back between: what the first time left goes too.
  virtual void take_away(ResidencyState to) = 0;
  // What a device has of it while it stands by.
  virtual uint64_t rest_on(std::string_view) const { return 0; }
  // Any thread: as in "the weights of NAME", and what is free on a device once it has left.
  virtual const std::string& name() const = 0;
  virtual uint64_t bytes_on(std::string_view device) const = 0;
  // What each of its shards takes of the devices when it is there.
  virtual const std::vector<uint64_t>& shard_bytes() const = 0;
};

struct ResidencyStats {
  ResidencyState state = ResidencyState::resident;
  uint64_t waits = 0;         // of a cache that had jobs, for the weights
  uint64_t wakes = 0;         // that went well; the first load is none
  uint64_t failed_wakes = 0;  // without those that waited for room
  uint64_t evictions = 0;
  Duration last_wake{0};  // how long the last one took
  Duration all_wakes{0};
};

// One candidate of a plan, and whether it could leave now.
struct ResidencyCandidate {
  EvictionCandidate candidate;
  bool is_idle = false;
};

// Any thread may call anything. Its lock is taken by itself; nothing is moved, and nobody called, under it
// but signals.
class WeightResidency : public std::enable_shared_from_this<WeightResidency> {
 public:
  // Known to the runtime, which may evict it for others while nobody uses it, until it is destroyed.
  static std::shared_ptr<WeightResidency> create(std::shared_ptr<Runtime> runtime,
                                                 std::unique_ptr<EvictableWeights> weights,
                                                 ResidencyState state);
  ~WeightResidency();

  const std::string& name() const { return weights_->name(); }
  const std::vector<uint64_t>& shard_bytes() const { return weights_->shard_bytes(); }
  ResidencyState state() const;
  ResidencyStats figures() const;

  // Brings the weights back and waits until they are there; what a wait leaves unfinished goes on. Throws
  // what the load of this wake threw.
  WaitEnd wake(const Wait& wait);
  // Takes the weights away once no cache has jobs. `to` is standing_by or on_disk. Where the wait ends early
  // they stay. Throws where the files do not say enough to come back.
  WaitEnd evict(ResidencyState to, const Wait& wait);
  // Those of the lowest leave first when another model needs the room.
  void set_priority(int32_t priority);
  // Without jobs for so long it stands by; 0: never. The thread of a cache sees to it.
  void set_idle_timeout(Duration timeout);
  // Nobody wants it any more: a load that is under way ends.
  void retire() noexcept;

  // Of a cache. `signal` is notified when it is worth asking again.
  void add_listener(std::shared_ptr<EngineSignal> signal);
  void remove_listener(const EngineSignal* signal) noexcept;
  // True: the weights are there, and stay until `leave`. False: they were asked for. Throws once what a load
  // threw that was asked for; the next call asks again. `asked` is the caller's, 0 at first.
  bool enter(uint64_t& asked);
  void leave() noexcept;
  // Those that came for `asked` need not stay for it: it does not enter.
  void withdraw(uint64_t& asked) noexcept;
  // When `leave_if_idle` is worth a call; max() where never.
  TimePoint idle_deadline() const;
  void leave_if_idle(TimePoint now) noexcept;

  // Whether the weights are there now; they stay then until `leave`.
  bool stay() noexcept;

  // Of the planner: what its leaving would free; nothing unless it is resident.
  std::optional<ResidencyCandidate> place_on(std::string_view device) const;
  // False where it is used or waited for, or cannot.
  bool leave_now() noexcept;
  // The same of one that stands by, for what a device still has of it.
  bool leave_rest(std::string_view device) noexcept;
  // Some memory came free: those that wait for room ask again.
  void note_room() noexcept;

 private:
  WeightResidency(std::shared_ptr<Runtime> runtime, std::unique_ptr<EvictableWeights> weights,
                  ResidencyState state);

  enum class Attempt : int32_t { not_needed, under_way, started };
  Attempt ask(uint64_t& asked, int32_t num_users);
  void start();
  void run_wake() noexcept;
  void end_wake(ErrorCode code, std::string_view message) noexcept;
  // Moving from here on; from what.
  ResidencyState begin_leaving() QUIRE_REQUIRES(mutex_);
  // After that. False where it could not, which has changed nothing.
  bool stand_by_from(ResidencyState from) noexcept;
  void take_away(ResidencyState from, ResidencyState to);
  void tell() noexcept QUIRE_REQUIRES(mutex_);
  bool is_idle() const noexcept QUIRE_REQUIRES(mutex_);
  bool is_away() const noexcept QUIRE_REQUIRES(mutex_);
  uint64_t num_changes() const;

  // From one state to another.
  struct Move {
    ResidencyState before = ResidencyState::resident;
    bool is_waking = false;
  };
  // Who uses the weights, and how much they are to stay.
  struct Use {
    int32_t num_users = 0;
    int32_t num_waiting = 0;  // caches that asked and have not entered
    int32_t priority = 0;
    Duration idle_timeout{0};
    TimePoint last_used;
  };
  // Attempts to bring them back, by number.
  struct Wakes {
    uint64_t last = 0;  // that was begun
    uint64_t failed = 0;
    ErrorCode failure = ErrorCode::ok;
    std::string failure_message;
    bool wait_for_room = false;
    uint64_t room_seen = 0;  // by the attempt that found none
  };

  const std::shared_ptr<Runtime> runtime_;
  const std::unique_ptr<EvictableWeights> weights_;
  std::atomic<bool> stop_{false};

  // The state, who uses it and who waits for it.
  mutable Mutex mutex_;
  std::condition_variable condition_;
  ResidencyState state_ QUIRE_GUARDED_BY(mutex_);
  Move move_ QUIRE_GUARDED_BY(mutex_);
  Use use_ QUIRE_GUARDED_BY(mutex_);
  Wakes wakes_ QUIRE_GUARDED_BY(mutex_);
  uint64_t num_changes_ QUIRE_GUARDED_BY(mutex_) = 0;  // changes of all of this
  std::vector<std::shared_ptr<EngineSignal>> listeners_ QUIRE_GUARDED_BY(mutex_);
  ResidencyStats figures_ QUIRE_GUARDED_BY(mutex_);
};

// While it lives, weights that were there when it began stay.
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

 private:
  const std::shared_ptr<WeightResidency> residency_;
};

}  // namespace quire
