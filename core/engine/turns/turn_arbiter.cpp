#include "core/engine/turns/turn_arbiter.h"

#include <algorithm>
#include <utility>

namespace quire {
namespace {

// How long other caches wait for a cache whose turn has just ended to ask again. Between two steps the host
// works some tenths of a millisecond. If a cache takes longer, another one computes.
constexpr Duration kPatience = std::chrono::milliseconds(2);

bool computes(const TurnView& view) {
  return view.state == TurnState::holds || view.state == TurnState::ends;
}

double seconds_of(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

int32_t TurnArbiter::join(const std::vector<std::string>& devices, double weight,
                          std::shared_ptr<EngineSignal> signal) {
  const MutexLock lock(mutex_);
  auto place = std::make_unique<Place>();
  place->taken = true;
  for (const std::string& name : devices) place->devices.push_back(device_index(name));
  std::sort(place->devices.begin(), place->devices.end());
  place->devices.erase(std::unique(place->devices.begin(), place->devices.end()), place->devices.end());
  place->weight = weight;
  place->signal = std::move(signal);
  const auto free = std::find_if(places_.begin(), places_.end(), [](const auto& old) { return !old->taken; });
  const auto idx = static_cast<size_t>(free - places_.begin());
  const size_t num_places = std::max(places_.size(), idx + 1);
  scratch_.reserve(num_places);
  chosen_.reserve(num_places);
  views_.reserve(num_places);
  places_.reserve(num_places);
  if (idx == places_.size()) {
    views_.emplace_back();
    places_.emplace_back();
  }
  views_[idx] = TurnView{};
  views_[idx].devices = place->devices;
  places_[idx] = std::move(place);
  return static_cast<int32_t>(idx);
}

int32_t TurnArbiter::device_index(const std::string& name) {
  const auto known = std::find(devices_.begin(), devices_.end(), name);
  const auto idx = static_cast<int32_t>(known - devices_.begin());
  if (known != devices_.end()) return idx;
  virtual_times_.reserve(virtual_times_.size() + 1);
  devices_.push_back(name);
  virtual_times_.push_back(0.0);
  return idx;
}

double TurnArbiter::virtual_now(size_t place) const noexcept {
  double now = 0.0;
  for (const int32_t device : places_[place]->devices)
    now = std::max(now, virtual_times_[static_cast<size_t>(device)]);
  return now;
}

void TurnArbiter::charge_alone(size_t place, TimePoint now) noexcept {
  Place& of = *places_[place];
  const Duration took = std::max(Duration{0}, now - of.began);
  of.began = now;
  of.turn += took;
  of.seconds += seconds_of(took);
  views_[place].served += seconds_of(took) / of.weight;
}

// Charges device time. A device computes in the order of submission: until the end of one turn has been
// computed, the time belongs to that turn, and the next turn has not begun.
void TurnArbiter::charge(size_t place, TimePoint now) noexcept {
  for (size_t i = 0; i < views_.size(); ++i) {
    if (i == place || !computes(views_[i]) || !share_device(views_[place], views_[i])) continue;
    if (views_[i].state == TurnState::ends) {
      charge_alone(i, now);
      places_[place]->began = now;
    } else if (views_[place].state == TurnState::ends) {
      places_[i]->began = now;
    }
  }
  charge_alone(place, now);
}

bool TurnArbiter::ends_beside(size_t place) const noexcept {
  const TurnView& own = views_[place];
  return std::any_of(views_.begin(), views_.end(), [&](const TurnView& other) {
    return other.state == TurnState::ends && share_device(own, other);
  });
}

void TurnArbiter::end_turn(size_t place) noexcept {
  Place& of = *places_[place];
  of.last_turn = std::exchange(of.turn, Duration{0});
  of.usual_turn = of.usual_turn == Duration{0} ? of.last_turn : (3 * of.usual_turn + of.last_turn) / 4;
}

void TurnArbiter::become_idle(size_t place) noexcept {
  if (computes(views_[place])) {
    charge(place, clock_.now());
    places_[place]->turn = Duration{0};
  }
  views_[place].state = TurnState::idle;
}

void TurnArbiter::begin_turn(size_t place, TimePoint now) noexcept {
  views_[place].state = TurnState::holds;
  places_[place]->began = now;
  for (const int32_t device : places_[place]->devices) {
    double& virtual_time = virtual_times_[static_cast<size_t>(device)];
    virtual_time = std::max(virtual_time, views_[place].served);
  }
}

// Grants the turn to the caches that are next. `asking` checks its own state; the others are notified.
void TurnArbiter::hand_out(size_t asking, TimePoint now) noexcept {
  for (size_t i = 0; i < views_.size(); ++i) {
    if (views_[i].state == TurnState::returns && i != asking && places_[i]->expected <= now)
      views_[i].state = TurnState::idle;
  }
  choose_turns(views_, bounds_, scratch_, chosen_);
  for (const int32_t chosen : chosen_) {
    const auto place = static_cast<size_t>(chosen);
    if (views_[place].state != TurnState::wants) continue;
    begin_turn(place, now);
    if (place != asking) places_[place]->signal->notify();
  }
}

bool TurnArbiter::is_chosen(int32_t place) const noexcept {
  return std::find(chosen_.begin(), chosen_.end(), place) != chosen_.end();
}

void TurnArbiter::give_up(int32_t place) noexcept {
  const MutexLock lock(mutex_);
  const auto idx = static_cast<size_t>(place);
  become_idle(idx);
  views_[idx].devices = {};
  places_[idx]->devices.clear();
  hand_out(idx, clock_.now());
}

DeviceTurn::DeviceTurn(std::shared_ptr<TurnArbiter> arbiter, const std::vector<std::string>& devices,
                       double weight, std::shared_ptr<EngineSignal> signal)
    : arbiter_(std::move(arbiter)), place_(arbiter_->join(devices, weight, std::move(signal))) {}

DeviceTurn::~DeviceTurn() {
  withdraw();
  const MutexLock lock(arbiter_->mutex_);
  arbiter_->places_[static_cast<size_t>(place_)]->taken = false;
  arbiter_->places_[static_cast<size_t>(place_)]->signal = nullptr;
}

void DeviceTurn::withdraw() noexcept {
  arbiter_->give_up(place_);
}

bool DeviceTurn::ask(const TurnUrgency& urgency) noexcept {
  const MutexLock lock(arbiter_->mutex_);
  const auto idx = static_cast<size_t>(place_);
  TurnView& view = arbiter_->views_[idx];
  view.priority = urgency.priority;
  view.deadline = urgency.deadline;
  if (view.state == TurnState::holds) return true;
  const TimePoint now = arbiter_->clock_.now();
  if (view.state == TurnState::idle) {
    view.served = served_after_idle(view.served, arbiter_->virtual_now(idx));
    view.state = TurnState::wants;
  }
  // A cache that returns still has a small advantage in this choice. After that it waits like the others.
  arbiter_->hand_out(idx, now);
  if (view.state == TurnState::returns) {
    const bool is_first = arbiter_->is_chosen(place_);
    view.state = TurnState::wants;
    if (is_first) arbiter_->begin_turn(idx, now);
  }
  return view.state == TurnState::holds;
}

void DeviceTurn::pass_on() noexcept {
  const MutexLock lock(arbiter_->mutex_);
  const auto idx = static_cast<size_t>(place_);
  TurnView& view = arbiter_->views_[idx];
  if (view.state != TurnState::holds || arbiter_->ends_beside(idx)) return;
  const TimePoint now = arbiter_->clock_.now();
  arbiter_->charge(idx, now);
  view.state = TurnState::ends;
  arbiter_->hand_out(idx, now);
}

void DeviceTurn::end() noexcept {
  const MutexLock lock(arbiter_->mutex_);
  const auto idx = static_cast<size_t>(place_);
  TurnView& view = arbiter_->views_[idx];
  if (!computes(view)) return;
  const TimePoint now = arbiter_->clock_.now();
  arbiter_->charge(idx, now);
  arbiter_->end_turn(idx);
  view.state = TurnState::returns;
  arbiter_->places_[idx]->expected = now + kPatience;
  arbiter_->hand_out(idx, now);
}

void DeviceTurn::continue_turn() noexcept {
  const MutexLock lock(arbiter_->mutex_);
  const auto idx = static_cast<size_t>(place_);
  if (arbiter_->views_[idx].state != TurnState::holds) return;
  const TimePoint now = arbiter_->clock_.now();
  arbiter_->charge(idx, now);
  arbiter_->end_turn(idx);
  arbiter_->begin_turn(idx, now);
}

bool DeviceTurn::would_be_next() noexcept {
  const MutexLock lock(arbiter_->mutex_);
  const auto idx = static_cast<size_t>(place_);
  TurnView& view = arbiter_->views_[idx];
  if (view.state != TurnState::holds) return false;
  const TurnArbiter::Place& place = *arbiter_->places_[idx];
  const TurnView now = view;
  view.state = TurnState::returns;
  view.served += seconds_of(place.usual_turn) / place.weight;
  choose_turns(arbiter_->views_, arbiter_->bounds_, arbiter_->scratch_, arbiter_->chosen_);
  view = now;
  return arbiter_->is_chosen(place_);
}

bool DeviceTurn::may_continue() noexcept {
  const MutexLock lock(arbiter_->mutex_);
  const auto idx = static_cast<size_t>(place_);
  TurnView& view = arbiter_->views_[idx];
  if (view.state != TurnState::holds) return false;
  const TimePoint now = arbiter_->clock_.now();
  arbiter_->charge(idx, now);
  view.state = TurnState::returns;
  arbiter_->hand_out(idx, now);
  const bool is_first = arbiter_->is_chosen(place_);
  view.state = is_first ? TurnState::holds : TurnState::wants;
  return is_first;
}

bool DeviceTurn::holds() const noexcept {
  const MutexLock lock(arbiter_->mutex_);
  return arbiter_->views_[static_cast<size_t>(place_)].state == TurnState::holds;
}

void DeviceTurn::leave() noexcept {
  const MutexLock lock(arbiter_->mutex_);
  const auto idx = static_cast<size_t>(place_);
  if (arbiter_->views_[idx].state == TurnState::idle) return;
  arbiter_->become_idle(idx);
  arbiter_->hand_out(idx, arbiter_->clock_.now());
}

TimePoint DeviceTurn::next_request_time() const noexcept {
  const MutexLock lock(arbiter_->mutex_);
  const auto idx = static_cast<size_t>(place_);
  const TurnView& view = arbiter_->views_[idx];
  TimePoint again = TimePoint::max();
  if (view.state != TurnState::wants) return again;
  for (size_t i = 0; i < arbiter_->views_.size(); ++i) {
    const TurnView& other = arbiter_->views_[i];
    if (other.state == TurnState::returns && share_device(view, other))
      again = std::min(again, arbiter_->places_[i]->expected);
  }
  return again;
}

TurnNeighbours DeviceTurn::neighbours() const noexcept {
  const MutexLock lock(arbiter_->mutex_);
  const auto idx = static_cast<size_t>(place_);
  TurnNeighbours neighbours;
  for (size_t i = 0; i < arbiter_->views_.size(); ++i) {
    const TurnView& other = arbiter_->views_[i];
    if (i == idx || other.state == TurnState::idle || !share_device(arbiter_->views_[idx], other)) continue;
    neighbours.any = true;
    const Duration usual = arbiter_->places_[i]->usual_turn;
    const Duration known = neighbours.shortest_turn;
    neighbours.shortest_turn =
        known == Duration{0} || usual == Duration{0} ? std::max(known, usual) : std::min(known, usual);
  }
  return neighbours;
}

Duration DeviceTurn::last_turn() const noexcept {
  const MutexLock lock(arbiter_->mutex_);
  return arbiter_->places_[static_cast<size_t>(place_)]->last_turn;
}

void DeviceTurn::set_weight(double weight) noexcept {
  const MutexLock lock(arbiter_->mutex_);
  arbiter_->places_[static_cast<size_t>(place_)]->weight = weight;
}

double DeviceTurn::seconds() const noexcept {
  const MutexLock lock(arbiter_->mutex_);
  return arbiter_->places_[static_cast<size_t>(place_)]->seconds;
}

}  // namespace quire
