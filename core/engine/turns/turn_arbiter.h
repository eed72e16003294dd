// Caches of one runtime that compute on one device take turns.
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

// What makes a cache urgent: the highest priority and the nearest deadline of its jobs.
struct TurnUrgency {
  int32_t priority = 0;
  TimePoint deadline = TimePoint::max();
};

// Who else computes on the devices of a cache now.
struct TurnNeighbours {
  bool any = false;
  Duration shortest_turn{0};  // the usual one of the quickest of them; 0: not known
};

// The place of a cache in the line of its devices, from its creation to its end. Any thread may call
// anything; only the engine's thread takes turns.
class DeviceTurn {
 public:
  // `signal` is notified when a turn that was asked for has come. Devices are told by name; none: the cache
  // computes whenever it likes.
  DeviceTurn(std::shared_ptr<TurnArbiter> arbiter, const std::vector<std::string>& devices, double weight,
             std::shared_ptr<EngineSignal> signal);
  DeviceTurn(const DeviceTurn&) = delete;
  DeviceTurn& operator=(const DeviceTurn&) = delete;
  ~DeviceTurn();

  // True: the turn is this cache's until `end` or `leave`. False: it waits in the line.
  bool ask(const TurnUrgency& urgency) noexcept;
  // In a turn, with its last pass issued to a device that computes on its own: another cache has its turn
  // from now on, and issues its first pass meanwhile, so that the device finds it when it is done with this
  // one. Nothing happens where the end of another turn is still computed.
  void pass_on() noexcept;
  // The device has computed: what it took is charged. The cache is expected to ask again at once.
  void end() noexcept;
  // As end, but the device computes what was issued ahead, within the same turn.
  void go_on() noexcept;
  // In a turn: whether this cache would be the next again, after a step of its usual length.
  bool stays_first() noexcept;
  // In the middle of a turn: false where another cache is to compute first; it then waits as after `ask`.
  bool may_go_on() noexcept;
  // Whether the turn that it waits for has come.
  bool holds() const noexcept;
  // It has nothing to compute.
  void leave() noexcept;
  // For ever: a device that hangs holds up nobody else.
  void withdraw() noexcept;
  // When to ask again without being told: another cache was expected to ask and has not; max() where never.
  TimePoint ask_again() const noexcept;

  TurnNeighbours neighbours() const noexcept;
  // How long the device has computed for the cache in its last turn.
  Duration last_turn() const noexcept;
  // Twice the weight is twice the time of a device that two caches want.
  void set_weight(double weight) noexcept;
  double seconds() const noexcept;  // that it had its devices, in all

 private:
  const std::shared_ptr<TurnArbiter> arbiter_;
  int32_t place_ = -1;
};

// Any thread. Takes no memory after a device_turn is made.
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
    TimePoint began;     // the part of the turn that is not charged yet
    TimePoint expected;  // to ask again by then
    Duration turn{0};    // charged of the turn so far
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
  bool is_chosen(int32_t place) const noexcept QUIRE_REQUIRES(mutex_);  // by the last `hand_out`
  int32_t device_index(const std::string& name) QUIRE_REQUIRES(mutex_);
  double virtual_now(size_t place) const noexcept QUIRE_REQUIRES(mutex_);

  const Clock& clock_;
  const TurnBounds bounds_;
  // The line of every device: who computes, who waits, what each has had.
  mutable Mutex mutex_;
  std::vector<std::string> devices_ QUIRE_GUARDED_BY(mutex_);
  std::vector<double> virtual_times_ QUIRE_GUARDED_BY(mutex_);  // of devices: when the last turn began
  std::vector<TurnView> views_ QUIRE_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Place>> places_ QUIRE_GUARDED_BY(mutex_);  // as views_
  std::vector<int32_t> scratch_ QUIRE_GUARDED_BY(mutex_);
  std::vector<int32_t> chosen_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire
