// Policy for turns: chooses the caches that compute next on shared devices. A pure function on plain structs.
#pragma once

#include <cstdint>
#include <vector>

#include <gsl/gsl>

#include "core/base/clock.h"

namespace quire {

enum class TurnState : int32_t {
  idle,     // nothing to compute
  wants,    // waits for its turn
  holds,    // has the turn, and exclusive use of its devices
  ends,     // the last pass of its turn is being computed; another cache may issue work
  returns,  // its turn has just ended, and it is expected to ask for the next one
};

// State of one cache for the policy.
struct TurnView {
  TurnState state = TurnState::idle;
  // Virtual time: seconds of device time divided by the weight. The cache with the smallest is furthest below
  // its fair share.
  double served = 0.0;
  int32_t priority = 0;                   // highest of its jobs
  TimePoint deadline = TimePoint::max();  // nearest of its jobs
  gsl::span<const int32_t> devices;       // ascending; none: the cache conflicts with no other
};

struct TurnBounds {
  // Priorities and deadlines count while a cache is at most this far ahead, in virtual time, of the caches
  // that share a device with it.
  double max_lead = 0.1;
  // The cache that has just computed continues until it is this far ahead: its data is still in the
  // processor's caches.
  double slice = 0.002;
};

// Fills `chosen` with the indices of the caches that get the next turn, among those that want it or return.
// Devices of a cache that returns are reserved until it asks. Rules:
// - One cache at a time issues work for a device. Caches without a common device do not affect each other.
// - Among those within max_lead the order is: higher priority, nearer deadline, lower virtual time. Those
//   beyond it come after all others, by virtual time.
// - If a cache needs several devices and some are in use, the free ones are reserved for it against caches of
//   lower rank: it waits for at most one turn on each.
// The caller must reserve capacity for all caches in `chosen` and `scratch`.
void choose_turns(gsl::span<const TurnView> caches, const TurnBounds& bounds, std::vector<int32_t>& scratch,
                  std::vector<int32_t>& chosen) noexcept;

// True if two caches have a device in common.
bool share_device(const TurnView& a, const TurnView& b) noexcept;

// Returns the virtual time of a cache that was idle: its own, but at least `now`, so that idle time earns no
// credit. `now` is the virtual time at which the last turn on one of its devices began.
double served_after_idle(double served, double now) noexcept;

}  // namespace quire
