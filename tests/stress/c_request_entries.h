// Those functions of the C interface (c_entry_points.cpp) that fill a request.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "tests/stress/c_world.h"

namespace quire::testing {

constexpr std::array<int32_t, 6> kTokens = {70, 71, 72, 73, 74, 75};
constexpr int64_t kMinute = 60'000'000'000;

void set_request(CWorld& w, const Calls& call);
void shape_draws(CWorld& w, const Calls& call);
void set_sampling(CWorld& w, const Calls& call);
void set_scheduling(CWorld& w, const Calls& call);
void set_kind(CWorld& w, const Calls& call);
void set_messages(CWorld& w, const Calls& call);
void set_queue(CWorld& w, const Calls& call);
void free_request(CWorld& w, const Calls& call);

}  // namespace quire::testing
