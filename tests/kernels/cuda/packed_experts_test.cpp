// Host experts on the card: their sums have the bits of the CPU backend, whose matrices they are.
#include <functional>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/plan/packed_layout.h"
#include "tests/kernels/cuda/cuda_device.h"
#include "tests/kernels/cuda/random_weights.h"

namespace quire::kernels {
namespace {

using Layout = std::vector<std::pair<int, int>>;  // groups as (bits, rows)

// A CPU device and a context on it.
struct Host {
  Host() {
    const DeviceOptions options = {};
    EXPECT_EQ(cpu_backend().open_device(0, &options, &device), Status::ok);
    table = cpu_backend().table(device);
    ContextLimits limits;
    limits.max_tokens = 4096;
    limits.max_sequences = 1;
    limits.max_pages_per_sequence = 1;
    limits.max_columns = 2048;
    limits.expert_columns = 4096;
    EXPECT_EQ(table->create_context(device, &limits, &context), Status::ok);
  }
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;
  ~Host() {
    table->release_context(context);
    for (Weight* weight : weights) table->release_weight(device, weight);
    cpu_backend().close_device(device);
  }
  const Weight* prepare(const std::vector<WeightSource>& parts) {
    Weight* weight = nullptr;
    EXPECT_EQ(prepare_weight(*table, device, parts.data(), static_cast<int32_t>(parts.size()), &weight),
              Status::ok);
    weights.push_back(weight);
    return weight;
  }

  Device* device = nullptr;
  const KernelTable* table = nullptr;
  Context* context = nullptr;
  std::vector<Weight*> weights;
};

// Matrices of experts, and what a call to sum_packed_experts needs of them.
struct Experts {
  Host* host = nullptr;
  std::vector<const Weight*> gate_up, down;
  int32_t num_in = 0, num_out = 0;
  uint64_t largest_bytes = 0;
  MlpSpec mlp;
  int32_t failing_describe = -1;  // expert that cannot be described
  int32_t copies_left = -1;       // copies until one fails; negative: none fails
};

Status describe(void* owner, int32_t expert, PackedExpert* described) {
  const auto& experts = *static_cast<const Experts*>(owner);
  if (expert == experts.failing_describe) return failed(Status::unsupported, "told to fail");
  const auto index = static_cast<size_t>(expert);
  QUIRE_RETURN_IF_FAILED(experts.host->table->describe_weight(experts.gate_up[index], &described->gate_up));
  return experts.host->table->describe_weight(experts.down[index], &described->down);
}

Status copy(void* owner, const CopyPiece* pieces, int32_t count) {
  auto& experts = *static_cast<Experts*>(owner);
  if (experts.copies_left >= 0 && experts.copies_left-- == 0)
    return failed(Status::unsupported, "told to fail");
  return experts.host->table->copy_pieces(experts.host->context, pieces, count);
}

// Rows of a step.
struct Step {
  int32_t tokens = 0;
  int32_t num_chosen = 0;
  std::vector<int32_t> experts;
  std::vector<float> input, weights;
  bool scales_input = false;
};

class PackedExpertsTest : public CudaTest {
 protected:
  void SetUp() override {
    open(true);
    if (device_ != nullptr && (table_->capabilities & kCapabilityPackedExperts) == 0)
      GTEST_SKIP() << "the backend has no packed experts";
  }
  void TearDown() override {
    close();
    host_.reset();
  }

  struct Form {
    std::vector<Layout> inputs;  // of gate and up, by expert; repeated
    std::vector<Layout> inner;   // of down
    int32_t num_out = 0;
    bool gated = true;
    bool shares_order = true;  // gate and up read the inputs in one order
    bool has_bias = false;
    ActivationDtype activations = ActivationDtype::full;
  };
  static int32_t rows_of(const Layout& layout) {
    int32_t rows = 0;
    for (const auto& group : layout) rows += group.second;
    return rows;
  }
  WeightSource source_of(const Form& form, const Layout& layout, int32_t columns) {
    StoredWeight& stored = *stored_.emplace_back(std::make_unique<StoredWeight>());
    make_exl2(stored, layout, columns, true, random_);
    stored.source.activations = form.activations;
    stored.source.prescale = 0.05f;
    if (form.has_bias) {
      for (int32_t n = 0; n < stored.source.padded_out; ++n)
        stored.bias.push_back(static_cast<float>(n % 7) * 0.125f - 0.25f);
      stored.source.bias = stored.bias.data();
    }
    return stored.source;
  }
  Experts make_experts(int32_t count, const Form& form) {
    if (host_ == nullptr) host_ = std::make_unique<Host>();
    Experts out;
    out.host = host_.get();
    const int32_t intermediate = rows_of(form.inner.front());
    for (int32_t e = 0; e < count; ++e) {
      const Layout& inputs = form.inputs[static_cast<size_t>(e) % form.inputs.size()];
      const Layout& inner = form.inner[static_cast<size_t>(e) % form.inner.size()];
      std::vector<WeightSource> parts;
      for (int part = 0; part < (form.gated ? 2 : 1); ++part)
        parts.push_back(source_of(form, inputs, intermediate));
      if (form.shares_order) parts.back().row_order = parts.front().row_order;
      out.gate_up.push_back(host_->prepare(parts));
      out.down.push_back(host_->prepare({source_of(form, inner, form.num_out)}));
      out.largest_bytes = std::max(out.largest_bytes, host_->table->weight_bytes(out.gate_up.back()) +
                                                          host_->table->weight_bytes(out.down.back()));
    }
    out.num_in = rows_of(form.inputs.front());
    out.num_out = form.num_out;
    out.mlp.gated = form.gated;
    out.mlp.intermediate = intermediate;
    return out;
  }
  // Makes a context for these experts; `at_once` of them fit a staging buffer.
  void make_packed_context(const Experts& experts, const Step& step, int32_t at_once) {
    ContextLimits limits = small_limits();
    limits.packed.staging_bytes = staging_bytes(experts.largest_bytes, at_once);
    limits.packed.num_experts = static_cast<int32_t>(experts.gate_up.size());
    limits.packed.num_chosen = step.num_chosen;
    limits.packed.max_tokens = step.tokens;
    limits.packed.num_in = experts.num_in;
    limits.packed.activated = experts.mlp.intermediate;
    limits.packed.products = (experts.mlp.gated ? 2 : 1) * experts.mlp.intermediate;
    limits.packed.num_out = experts.num_out;
    if (context_ != nullptr) table_->release_context(context_);
    context_ = nullptr;
    MemoryUse before, after, planned;
    table_->memory_use(device_, &before);
    make_context(limits);
    table_->memory_use(device_, &after);
    EXPECT_EQ(table_->plan_context(device_, &limits, &planned), Status::ok);
    EXPECT_EQ(after.held_bytes - before.held_bytes, planned.held_bytes);
    EXPECT_EQ(after.pinned_bytes - before.pinned_bytes, planned.pinned_bytes);
  }
  // The last expert gets no rows.
  Step make_step(const Experts& experts, int32_t tokens, int32_t num_chosen) {
    Step step;
    step.tokens = tokens;
    step.num_chosen = num_chosen;
    std::uniform_int_distribution<int32_t> any(0,
                                               std::max(0, static_cast<int32_t>(experts.gate_up.size()) - 2));
    const auto rows = static_cast<size_t>(tokens * num_chosen);
    for (size_t r = 0; r < rows; ++r) step.experts.push_back(any(random_));
    std::normal_distribution<float> normal(0.0f, 1.0f);
    for (size_t i = 0; i < static_cast<size_t>(tokens) * static_cast<size_t>(experts.num_in); ++i)
      step.input.push_back(normal(random_));
    for (size_t r = 0; r < rows; ++r) step.weights.push_back(normal(random_));
    return step;
  }
  static std::vector<float> on_cpu(const Experts& experts, const Step& step) {
    const KernelTable& table = *experts.host->table;
    const auto rows = static_cast<size_t>(step.tokens * step.num_chosen);
    const auto inner = static_cast<size_t>(experts.mlp.intermediate);
    std::vector<float> products(rows * inner * 2), activated(rows * inner);
    std::vector<float> outputs(rows * static_cast<size_t>(experts.num_out));
    std::vector<float> sums(static_cast<size_t>(step.tokens) * static_cast<size_t>(experts.num_out));
    ExpertLinearParams p;
    p.experts = experts.gate_up.data();
    p.num_experts = static_cast<int32_t>(experts.gate_up.size());
    p.expert_of_row = step.experts.data();
    p.input = step.input.data();
    p.rows_per_input = step.num_chosen;
    p.input_scale = step.scales_input ? step.weights.data() : nullptr;
    p.rows = static_cast<int32_t>(rows);
    p.output = activated.data();
    p.mlp = &experts.mlp;
    p.products = products.data();
    EXPECT_EQ(table.expert_linear(experts.host->context, &p), Status::ok);
    ExpertLinearParams q;
    q.experts = experts.down.data();
    q.num_experts = p.num_experts;
    q.expert_of_row = p.expert_of_row;
    q.input = activated.data();
    q.rows = p.rows;
    q.output = outputs.data();
    EXPECT_EQ(table.expert_linear(experts.host->context, &q), Status::ok);
    CombineParams c;
    c.input = outputs.data();
    c.weights = step.scales_input ? nullptr : step.weights.data();
    c.num_chosen = step.num_chosen;
    c.tokens = step.tokens;
    c.columns = experts.num_out;
    c.target = sums.data();
    EXPECT_EQ(table.combine(experts.host->context, &c), Status::ok);
    return sums;
  }
  Status run(Experts& experts, const Step& step, std::vector<float>& sums) {
    const float* on_host = nullptr;
    PackedExpertsParams p;
    p.owner = &experts;
    p.describe = describe;
    p.copy = copy;
    p.expert_of_row = step.experts.data();
    p.input = step.input.data();
    p.input_scale = step.scales_input ? step.weights.data() : nullptr;
    p.weights = step.scales_input ? nullptr : step.weights.data();
    p.num_experts = static_cast<int32_t>(experts.gate_up.size());
    p.num_chosen = step.num_chosen;
    p.tokens = step.tokens;
    p.mlp = experts.mlp;
    p.sums = &on_host;
    const Status status = table_->sum_packed_experts(context_, &p);
    if (status == Status::ok)
      sums.assign(on_host, on_host + static_cast<size_t>(step.tokens) * static_cast<size_t>(experts.num_out));
    return status;
  }
  void expect_same(Experts& experts, const Step& step) {
    const std::vector<float> expected = on_cpu(experts, step);
    std::vector<float> sums;
    const Status status = run(experts, step, sums);
    ASSERT_EQ(status, Status::ok) << status.words;
    ASSERT_EQ(sums.size(), expected.size());
    size_t differing = 0;
    for (size_t i = 0; i < sums.size(); ++i)
      if (std::memcmp(&sums[i], &expected[i], sizeof(float)) != 0 && ++differing < 4)
        ADD_FAILURE() << "number " << i << ": " << sums[i] << " instead of " << expected[i];
    EXPECT_EQ(differing, 0U);
  }

  std::mt19937 random_{std::random_device{}()};
  std::unique_ptr<Host> host_;
  std::vector<std::unique_ptr<StoredWeight>> stored_;
};

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
