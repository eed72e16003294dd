// Fault injection while a model with host experts is loaded, a cache is made for it and a step runs: each
// allocation fails in turn, once or from then on. Nothing leaks, and the next run succeeds.
#include <iostream>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/engine/model/model_plan.h"
#include "tests/core/models/host_experts_rig.h"
#include "tests/support/case_stride.h"
#include "tests/support/fault_loop.h"
#include "tests/support/golden_families.h"

namespace quire::testing {
namespace {

template <typename Run>
ErrorCode code_of(Run run) {
  try {
    run();
  } catch (const Error& error) {
    return error.code();
  } catch (const std::bad_alloc&) {
    return ErrorCode::out_of_memory;
  }
  return ErrorCode::ok;
}

// Makes each allocation of any thread fail in turn, including those of the devices' memory.
template <typename Run>
int64_t fail_allocations(Run run, int64_t stride) {
  return for_each_fault(
      [&](const FaultPoint& point) {
        SCOPED_TRACE(::testing::Message() << point);
        const int64_t live_before = num_live_allocations();
        const auto [code, failed] = [&] {
          const AllocationFault fault(point.nth, point.span, FaultScope::all_threads);
          const ErrorCode of_run = code_of(run);
          return std::pair(of_run, fault.num_failed() > 0);
        }();
        // A sort falls back to a slower algorithm if it cannot allocate.
        EXPECT_TRUE(code == ErrorCode::ok || (failed && code == ErrorCode::out_of_memory))
            << error_code_name(code);
        EXPECT_EQ(num_live_allocations(), live_before);
        return failed && !::testing::Test::HasFailure();
      },
      stride);
}

TEST(HostExpertsFaultLoop, EveryAllocationFails) {
  const FamilyDirectory family("qwen3_moe");
  const CardAndHost rig;
  const std::vector<int32_t> layers = movable_layers(family.path());
  const Placement placement = experts_apart(
      open_model_source(posix_file_system(), family.path())->config().num_layers, first_half(layers));
  const auto load = [&] { return load_placed(family.path(), {rig.card(), rig.host()}, placement); };
  constexpr int64_t kStride = stride_if_sanitized(31);
  ASSERT_EQ(code_of(load), ErrorCode::ok);
  const int64_t num_load_points = fail_allocations(load, 7 * kStride);
  EXPECT_GT(num_load_points, 20);
  const auto model = load();
  const auto step = [&] { (void)TransformerRunner(model, {}).logits({1, 2, 3, 4, 5}, 3); };
  ASSERT_EQ(code_of(step), ErrorCode::ok);
  const int64_t num_step_points = fail_allocations(step, kStride);
  EXPECT_GT(num_step_points, 5);
  EXPECT_EQ(code_of(step), ErrorCode::ok);
  std::cout << num_load_points << " and " << num_step_points << " faults\n";
}

}  // namespace
}  // namespace quire::testing
