// Contexts: limits, bound batches, and results.

#include <gtest/gtest.h>

#include "tests/kernels/cpu/cpu_device.h"

namespace quire::testing {
namespace {

using kernels::BatchView;
using kernels::ContextLimits;
using kernels::Status;
using kernels::StepAction;

TEST(CpuContext, ABoundBatchOutlivesTheArraysItWasMadeFrom) {
  CpuDevice device("scalar");
  std::vector<int32_t> ids = {5, 6, 7};
  std::vector<int32_t> positions = {0, 1, 9};
  std::vector<int32_t> sequences = {0, 0, 1};
  std::vector<int32_t> starts = {0, 2, 3};
  std::vector<int32_t> lengths = {2, 10};
  std::vector<int32_t> pages = {3, -1, 8, 9};
  std::vector<int32_t> rows = {1, 2};
  BatchView host;
  host.num_tokens = 3;
  host.num_sequences = 2;
  host.num_logit_rows = 2;
  host.page_table_stride = 2;
  host.token_ids = ids.data();
  host.positions = positions.data();
  host.sequence_of_token = sequences.data();
  host.sequence_starts = starts.data();
  host.kv_lengths = lengths.data();
  host.page_table = pages.data();
  host.logit_rows = rows.data();
  BatchView view;
  ASSERT_EQ(device.table().bind_batch(device.context(), &host, &view), Status::ok);
  for (auto* array : {&ids, &positions, &sequences, &starts, &lengths, &pages, &rows})
    array->assign(array->size(), -5);
  EXPECT_EQ(view.num_tokens, 3);
  EXPECT_EQ(view.token_ids[2], 7);
  EXPECT_EQ(view.positions[2], 9);
  EXPECT_EQ(view.sequence_of_token[2], 1);
  EXPECT_EQ(view.sequence_starts[2], 3);
  EXPECT_EQ(view.kv_lengths[1], 10);
  EXPECT_EQ(view.page_table[3], 9);
  EXPECT_EQ(view.logit_rows[1], 2);
}

TEST(CpuContext, RefusesABatchBeyondItsLimits) {
  CpuDevice device("scalar");
  BatchView host;
  host.num_tokens = CpuDevice::small_limits().max_tokens + 1;
  BatchView view;
  EXPECT_EQ(device.table().bind_batch(device.context(), &host, &view), Status::invalid_argument);
  host.num_tokens = 1;
  host.page_table_stride = 257;
  EXPECT_EQ(device.table().bind_batch(device.context(), &host, &view), Status::invalid_argument);
}

TEST(CpuContext, RefusesUnsupportedLimits) {
  CpuDevice device("scalar");
  ContextLimits limits = CpuDevice::small_limits();
  kernels::Context* context = nullptr;
  limits.head_dim = 513;
  EXPECT_EQ(device.table().create_context(device.handle(), &limits, &context), Status::invalid_argument);
  limits.head_dim = 64;
  limits.max_columns = 0;
  EXPECT_EQ(device.table().create_context(device.handle(), &limits, &context), Status::invalid_argument);
  EXPECT_EQ(context, nullptr);
}

TEST(CpuContext, RunningOutOfScratchMemoryReturnsAStatus) {
  CpuDevice device("scalar");
  ContextLimits limits = CpuDevice::small_limits();
  limits.max_sequences = INT32_MAX;
  limits.max_pages_per_sequence = INT32_MAX;
  kernels::Context* context = nullptr;
  EXPECT_EQ(device.table().create_context(device.handle(), &limits, &context), Status::out_of_memory);
  EXPECT_EQ(context, nullptr);
}

TEST(CpuContext, ReadsRows) {
  CpuDevice device("scalar");
  const std::vector<float> rows = {1, 2, 3, 4, 5, 6};
  std::vector<float> host(6);
  ASSERT_EQ(device.table().read_rows(device.context(), rows.data(), 2, 3, host.data()), Status::ok);
  ASSERT_EQ(device.table().synchronize(device.context()), Status::ok);
  EXPECT_EQ(host, rows);
}

}  // namespace
}  // namespace quire::testing
