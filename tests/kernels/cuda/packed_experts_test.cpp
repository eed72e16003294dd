// Host experts on the card: their sums have the bits of the CPU backend, whose matrices they are.
#include "tests/kernels/cuda/packed_experts_fixture.h"

namespace quire::kernels {
namespace {

TEST_F(PackedExpertsTest, SumsHaveTheBitsOfTheCpuForAllWidths) {
  Form form;
  form.inputs = {{{8, 64}, {6, 32}, {5, 128}, {4, 64}, {3, 32}, {2, 64}}, {{4, 384}}, {{5, 96}, {3, 288}}};
  form.inner = {{{6, 32}, {4, 64}}, {{8, 96}}, {{3, 32}, {2, 64}}};
  form.num_out = 40;
  for (const bool shares : {true, false}) {
    form.shares_order = shares;
    Experts experts = make_experts(6, form);
    const Step step = make_step(experts, 50, 3);
    make_packed_context(experts, step, 6);
    expect_same(experts, step);
  }
}

// Groups whose rows do not fill their blocks, and columns that do not fill their panels.
TEST_F(PackedExpertsTest, SumsHaveTheBitsOfTheCpuForOddShapes) {
  Form form;
  form.inputs = {{{4, 48}, {4, 40}, {2, 16}, {2, 32}}};
  form.inner = {{{8, 20}, {4, 8}}};
  form.num_out = 7;
  form.has_bias = true;
  Experts experts = make_experts(3, form);
  const Step step = make_step(experts, 37, 2);
  make_packed_context(experts, step, 3);
  expect_same(experts, step);
}

TEST_F(PackedExpertsTest, StagingBuffersAreFilledManyTimes) {
  Form form;
  form.inputs = {{{4, 128}}, {{3, 64}, {3, 64}}, {{8, 128}}};
  form.inner = {{{4, 64}}};
  form.num_out = 48;
  Experts experts = make_experts(13, form);
  const Step step = make_step(experts, 20, 4);
  for (const int32_t at_once : {1, 2, 5}) {
    make_packed_context(experts, step, at_once);
    for (int i = 0; i < 3; ++i) expect_same(experts, make_step(experts, 20 - i, 4));
  }
}

// One expert has more rows than are quantized at a time.
TEST_F(PackedExpertsTest, ManyRowsTakeSeveralBatches) {
  Form form;
  form.inputs = {{{4, 32}}};
  form.inner = {{{4, 32}}};
  form.num_out = 16;
  Experts experts = make_experts(2, form);
  const Step step = make_step(experts, 2200, 1);
  make_packed_context(experts, step, 2);
  expect_same(experts, step);
}

TEST_F(PackedExpertsTest, EachActivationHasTheBitsOfTheCpu) {
  Form form;
  form.inputs = {{{8, 64}}};
  form.inner = {{{8, 64}}};
  form.num_out = 16;
  for (const Activation kind :
       {Activation::silu, Activation::gelu_tanh, Activation::gelu_erf, Activation::relu,
        Activation::relu_squared, Activation::gelu_quick, Activation::xielu, Activation::clamped_swish}) {
    SCOPED_TRACE(static_cast<int>(kind));
    form.gated = kind != Activation::relu_squared;
    Experts experts = make_experts(3, form);
    experts.mlp.activation = kind;
    experts.mlp.a = 1.702f;
    experts.mlp.b = 0.75f;
    experts.mlp.c = 0.4f;
    experts.mlp.limit = 0.5f;
    Step step = make_step(experts, 40, 2);
    // Large and tiny numbers, too.
    for (size_t i = 0; i < step.input.size(); ++i)
      step.input[i] *= std::exp2(static_cast<float>(i % 61) - 30.0f);
    make_packed_context(experts, step, 3);
    expect_same(experts, step);
  }
}

TEST_F(PackedExpertsTest, ScaledInputsAndByteActivationsHaveTheBitsOfTheCpu) {
  Form form;
  form.inputs = {{{4, 160}}};
  form.inner = {{{5, 96}}};
  form.num_out = 32;
  form.activations = ActivationDtype::i8;
  Experts experts = make_experts(4, form);
  Step step = make_step(experts, 30, 1);
  step.scales_input = true;
  make_packed_context(experts, step, 4);
  expect_same(experts, step);
}

// Numbers below 2^-100 count as 0, and an error upstream shows in its own row alone.
TEST_F(PackedExpertsTest, RowsThatAreNotFiniteHarmNoOther) {
  Form form;
  form.inputs = {{{4, 256}}};
  form.inner = {{{4, 64}}};
  form.num_out = 32;
  Experts experts = make_experts(2, form);
  Step step = make_step(experts, 12, 1);
  std::fill_n(step.input.begin() + 3 * 256, 128, 1e-35f);
  step.input[5 * 256 + 7] = std::numeric_limits<float>::quiet_NaN();
  step.input[6 * 256 + 200] = std::numeric_limits<float>::infinity();
  make_packed_context(experts, step, 2);
  const std::vector<float> expected = on_cpu(experts, step);
  std::vector<float> sums;
  ASSERT_EQ(run(experts, step, sums), Status::ok);
  for (size_t i = 0; i < sums.size(); ++i) {
    const size_t row = i / 32;
    if (row == 5 || row == 6) {
      EXPECT_TRUE(std::isnan(sums[i]) && std::isnan(expected[i]));
    } else {
      EXPECT_EQ(std::memcmp(&sums[i], &expected[i], sizeof(float)), 0) << "row " << row;
    }
  }
}

TEST_F(PackedExpertsTest, FailuresLeaveTheContextUsable) {
  Form form;
  form.inputs = {{{4, 64}}};
  form.inner = {{{4, 32}}};
  form.num_out = 16;
  Experts experts = make_experts(5, form);
  Step step = make_step(experts, 16, 2);
  step.experts[0] = 2;
  make_packed_context(experts, step, 1);
  std::vector<float> sums;
  Step wrong = step;
  wrong.experts[3] = 5;
  EXPECT_EQ(run(experts, wrong, sums), Status::invalid_argument);
  wrong.experts[3] = -1;
  EXPECT_EQ(run(experts, wrong, sums), Status::invalid_argument);
  EXPECT_EQ(run(experts, make_step(experts, 17, 2), sums), Status::invalid_argument) << "too many tokens";
  experts.failing_describe = 2;
  EXPECT_EQ(run(experts, step, sums), Status::unsupported);
  experts.failing_describe = -1;
  for (int32_t allowed = 0; allowed < 2; ++allowed) {
    experts.copies_left = allowed;
    EXPECT_EQ(run(experts, step, sums), Status::unsupported);
  }
  experts.copies_left = -1;
  experts.mlp.intermediate = 16;
  EXPECT_EQ(run(experts, step, sums), Status::invalid_argument) << "another shape";
  experts.mlp.intermediate = 32;
  expect_same(experts, step);
}

TEST_F(PackedExpertsTest, AContextThatDoesNotFitTakesNothing) {
  ContextLimits limits = small_limits();
  limits.packed.staging_bytes = uint64_t{8} << 20;
  limits.packed.num_experts = limits.packed.num_chosen = 2;
  limits.packed.max_tokens = 256;
  limits.packed.num_in = limits.packed.products = limits.packed.activated = limits.packed.num_out = 256;
  MemoryUse planned;
  ASSERT_EQ(table_->plan_context(device_, &limits, &planned), Status::ok);
  limits.packed.staging_bytes = 0;
  MemoryUse without;
  ASSERT_EQ(table_->plan_context(device_, &limits, &without), Status::ok);
  limits.packed.staging_bytes = uint64_t{8} << 20;
  close();
  for (const uint64_t limit : {planned.held_bytes - 1, without.held_bytes + (uint64_t{9} << 20)}) {
    DeviceOptions options;
    options.memory_limit_bytes = limit;
    ASSERT_EQ(cuda_backend()->open_device(0, &options, &device_), Status::ok);
    table_ = cuda_backend()->table(device_);
    EXPECT_EQ(table_->create_context(device_, &limits, &context_), Status::out_of_memory);
    MemoryUse use;
    table_->memory_use(device_, &use);
    EXPECT_EQ(use.held_bytes, 0U);
    EXPECT_EQ(use.pinned_bytes, 0U);
    close();
  }
}

TEST_F(PackedExpertsTest, AContextWithoutTheirMemoryRefuses) {
  Form form;
  form.inputs = {{{4, 64}}};
  form.inner = {{{4, 32}}};
  form.num_out = 16;
  Experts experts = make_experts(2, form);
  make_context(small_limits());
  std::vector<float> sums;
  EXPECT_EQ(run(experts, make_step(experts, 2, 1), sums), Status::invalid_argument);
}

}  // namespace
}  // namespace quire::kernels
