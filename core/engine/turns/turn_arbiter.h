// Time slicing between caches of one runtime that compute on the same device: they take turns.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/engine_signal.h"
#include "core/base/mutex.h"
#include "core/engine/turns/turn_policy.h"

namespace quire {

class TurnArbiter;

// Urgency of a cache: the highest priority and the nearest deadline of its jobs.
struct TurnUrgency {
  int32_t priority = 0;
  TimePoint deadline = TimePoint::max();
};

// Other caches that compute on the same devices now.
struct TurnNeighbours {
  bool any = false;
  Duration shortest_turn{0};  // usual turn of the fastest one; 0: unknown
};

// Entry of a cache in the arbiter, for the cache's lifetime. Thread-safe, but only the engine's thread takes
// turns.
class DeviceTurn {
 public:
  // `signal` is notified when a requested turn is granted. `devices` are names; if there are none, the cache
  // can compute at any time.
  DeviceTurn(std::shared_ptr<TurnArbiter> arbiter, const std::vector<std::string>& devices, double weight,
             std::shared_ptr<EngineSignal> signal);
  DeviceTurn(const DeviceTurn&) = delete;
  DeviceTurn& operator=(const DeviceTurn&) = delete;
  ~DeviceTurn();

  // Requests a turn. Returns true if the cache has the turn, until `end` or `leave`; false if it must wait.
  bool ask(const TurnUrgency& urgency) noexcept;
  // Ends the exclusive part of a turn whose last pass was issued to an asynchronous device. Another cache
  // gets its turn and issues its first pass, so that the device can start it as soon as this turn is
  // computed. Does nothing while the end of another turn is still being computed.
  void pass_on() noexcept;
  // Called when the device has computed the turn: charges its time. The cache is expected to ask again at
  // once.
  void end() noexcept;
  // Like end, but the device continues with a pass that was issued ahead, so that the next turn begins at
  // once.
  void continue_turn() noexcept;
  // During a turn: true if this cache would also be next after a step of its usual length.
  bool would_be_next() noexcept;
  // During a turn: false if another cache must compute first. This one then waits as after `ask`.
  bool may_continue() noexcept;
  // True if the cache has the turn.
  bool holds() const noexcept;
  // Ends the turn or the wait for one; called when there is nothing to compute.
  void leave() noexcept;
  // Leaves for good, so that a hung device does not block other caches.
  void withdraw() noexcept;
  // Returns when to ask again even without a notification, because another cache was expected to ask by then.
  // max(): never.
  TimePoint next_request_time() const noexcept;

  TurnNeighbours neighbours() const noexcept;
  // Returns how long the device computed in the last turn of this cache.
  Duration last_turn() const noexcept;
  // With twice the weight a cache gets twice the time of a device that others want as well.
  void set_weight(double weight) noexcept;
  double seconds() const noexcept;  // total device time

 private:
  const std::shared_ptr<TurnArbiter> arbiter_;
  int32_t place_ = -1;
};

// Thread-safe. Allocates memory only when a DeviceTurn is created.
class TurnArbiter {
 public:
  explicit TurnArbiter(const Clock& clock, const TurnBounds& bounds = {}) : clock_(clock), bounds_(bounds) {}

 private:
  friend class DeviceTurn;

  struct Place {
    bool taken = false;
    std::vector<int32_t> devices;
    double weight = 1.0;
    std::shared_ptr<EngineSignal> signal;
    TimePoint began;     // start of the part of the turn that is not charged yet
    TimePoint expected;  // to ask again by this time
    Duration turn{0};    // charged so far in this turn
    Duration last_turn{0};
    Duration usual_turn{0};
    double seconds = 0.0;
  };

  int32_t join(const std::vector<std::string>& devices, double weight, std::shared_ptr<EngineSignal> signal);
  void give_up(int32_t place) noexcept;
  void charge(size_t place, TimePoint now) noexcept QUIRE_REQUIRES(mutex_);
  void charge_alone(size_t place, TimePoint now) noexcept QUIRE_REQUIRES(mutex_);
  bool ends_beside(size_t place) const noexcept QUIRE_REQUIRES(mutex_);
  void end_turn(size_t place) noexcept QUIRE_REQUIRES(mutex_);
  void become_idle(size_t place) noexcept QUIRE_REQUIRES(mutex_);
  void hand_out(size_t asking, TimePoint now) noexcept QUIRE_REQUIRES(mutex_);
  void begin_turn(size_t place, TimePoint now) noexcept QUIRE_REQUIRES(mutex_);
  bool is_chosen(int32_t place) const noexcept QUIRE_REQUIRES(mutex_);  // by the last hand_out
  int32_t device_index(const std::string& name) QUIRE_REQUIRES(mutex_);
  double virtual_now(size_t place) const noexcept QUIRE_REQUIRES(mutex_);

  const Clock& clock_;
  const TurnBounds bounds_;
  // Guards the state of all caches and devices.
  mutable Mutex mutex_;
  std::vector<std::string> devices_ QUIRE_GUARDED_BY(mutex_);
  // Virtual time of each device when its last turn began.
  std::vector<double> virtual_times_ QUIRE_GUARDED_BY(mutex_);
  std::vector<TurnView> views_ QUIRE_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Place>> places_ QUIRE_GUARDED_BY(mutex_);  // same order as views_
  std::vector<int32_t> scratch_ QUIRE_GUARDED_BY(mutex_);
  std::vector<int32_t> chosen_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire
