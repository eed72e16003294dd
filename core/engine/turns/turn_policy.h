// Which of the caches that share devices compute next. A pure function on plain structs.
#pragma once

#include <cstdint>
#include <vector>

#include <gsl/gsl>

#include "core/base/clock.h"

namespace quire {

enum class TurnState : int32_t {
  idle,     // nothing to compute
  wants,    // waits for its turn
  holds,    // has the turn: its devices are its own
  ends,     // the last pass of its turn is being computed: another may issue meanwhile
  returns,  // its turn has just ended, and it is about to ask for the next
};

// One cache, as the policy sees it.
struct TurnView {
  TurnState state = TurnState::idle;
  // Virtual time: seconds that it had its devices, divided by its weight. The least of all is furthest below
  // its share.
  double served = 0.0;
  int32_t priority = 0;                   // of the highest of its jobs
  TimePoint deadline = TimePoint::max();  // the nearest of its jobs
  gsl::span<const int32_t> devices;       // all of them, ascending; none: it hinders nobody
};

struct TurnBounds {
  // Priorities and deadlines count while a cache is at most that far ahead of one that shares a device with
  // it, in virtual time.
  double max_lead = 0.1;
  // The cache that has just computed goes on until it is that far ahead: what it had in the caches of the
  // processor serves it a while.
  double slice = 0.002;
};

// Fills `chosen` with the places of the caches that have the turn next: of those that want it or return. One
// that returns keeps its devices for itself until it asks. Rules:
// - One cache at a time issues what a device computes; caches without a common device do not see each other.
// - Of those within max_lead: the higher priority, then the nearer deadline, then the lower virtual time;
//   those beyond it come after all others, by virtual time.
// - A cache that needs several devices and cannot have all of them yet keeps those that are free from caches
//   that rank lower: it waits for no more than one turn on each.
// `chosen` and `scratch` are reserved by the caller for as many places as there are caches.
void choose_turns(gsl::span<const TurnView> caches, const TurnBounds& bounds, std::vector<int32_t>& scratch,
                  std::vector<int32_t>& chosen) noexcept;

// Whether two caches compute on a common device.
bool share_device(const TurnView& a, const TurnView& b) noexcept;

// The virtual time with which a cache that was idle comes back: it keeps its own, but saves up no credit.
// `now` is the virtual time at which the last turn on one of its devices began.
double served_after_idle(double served, double now) noexcept;

}  // namespace quire
