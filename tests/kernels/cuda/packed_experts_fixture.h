// A card and the host, whose matrices of experts the card multiplies.
#pragma once

#include <functional>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/plan/packed_layout.h"
#include "tests/kernels/cuda/cuda_device.h"
#include "tests/kernels/cuda/random_weights.h"

namespace quire::kernels {

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
  std::vector<ExpertPlace> places;
};

inline Status describe(void* owner, int32_t expert, PackedExpert* described) {
  const auto& experts = *static_cast<const Experts*>(owner);
  if (expert == experts.failing_describe) return failed(Status::unsupported, "told to fail");
  const auto index = static_cast<size_t>(expert);
  QUIRE_RETURN_IF_FAILED(experts.host->table->describe_weight(experts.gate_up[index], &described->gate_up));
  return experts.host->table->describe_weight(experts.down[index], &described->down);
}

inline Status copy(void* owner, const CopyPiece* pieces, int32_t count) {
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
    limits.packed.slot_bytes =
        slot_bytes(experts.largest_bytes, std::min(experts.num_out, experts.mlp.intermediate));
    limits.packed.num_slots = num_slots_;
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
  static PackedExpertsParams params_of(Experts& experts, const Step& step) {
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
    p.places = experts.places.empty() ? nullptr : experts.places.data();
    return p;
  }
  Status run(Experts& experts, const Step& step, std::vector<float>& sums) {
    const float* on_host = nullptr;
    PackedExpertsParams p = params_of(experts, step);
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

  // Gives slots to some experts, of which none is there yet.
  void give_slots(Experts& experts, const std::vector<int32_t>& with_slots) {
    experts.places.assign(experts.gate_up.size(), {});
    int32_t slot = num_slots_;
    for (const int32_t expert : with_slots) experts.places[static_cast<size_t>(expert)].slot = --slot;
  }
  static void mark_filled(Experts& experts) {
    for (ExpertPlace& place : experts.places) place.is_filled = place.slot >= 0;
  }
  // Returns the sums if the card multiplies the experts that are there, and the host the others.
  std::vector<float> at_both(Experts& experts, const Step& step) {
    const KernelTable& host = *experts.host->table;
    const auto rows = static_cast<size_t>(step.tokens * step.num_chosen);
    const auto inner = static_cast<size_t>(experts.mlp.intermediate);
    const auto width = static_cast<size_t>(experts.num_out);
    const PackedExpertsParams started = params_of(experts, step);
    EXPECT_EQ(table_->start_slot_experts(context_, &started), Status::ok);
    std::vector<int32_t> left = step.experts;
    for (int32_t& expert : left)
      if (experts.places[static_cast<size_t>(expert)].is_there()) expert = -1;
    std::vector<float> products(rows * inner * 2), activated(rows * inner), outputs(rows * width, -1.0f);
    ExpertLinearParams p;
    p.experts = experts.gate_up.data();
    p.num_experts = started.num_experts;
    p.expert_of_row = left.data();
    p.input = step.input.data();
    p.rows_per_input = step.num_chosen;
    p.input_scale = started.input_scale;
    p.rows = static_cast<int32_t>(rows);
    p.output = activated.data();
    p.mlp = &experts.mlp;
    p.products = products.data();
    EXPECT_EQ(host.expert_linear(experts.host->context, &p), Status::ok);
    p.experts = experts.down.data();
    p.input = activated.data();
    p.rows_per_input = 1;
    p.input_scale = nullptr;
    p.output = outputs.data();
    p.mlp = nullptr;
    EXPECT_EQ(host.expert_linear(experts.host->context, &p), Status::ok);
    EXPECT_EQ(table_->finish_slot_experts(context_, outputs.data()), Status::ok);
    std::vector<float> sums(static_cast<size_t>(step.tokens) * width);
    CombineParams c;
    c.input = outputs.data();
    c.weights = started.weights;
    c.num_chosen = step.num_chosen;
    c.tokens = step.tokens;
    c.columns = experts.num_out;
    c.target = sums.data();
    EXPECT_EQ(host.combine(experts.host->context, &c), Status::ok);
    return sums;
  }
  static void expect_equal(const std::vector<float>& a, const std::vector<float>& b) {
    ASSERT_EQ(a.size(), b.size());
    EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0);
  }
  Form small_form() const {
    Form form;
    form.inputs = {{{4, 128}}, {{3, 64}, {5, 64}}, {{8, 128}}};
    form.inner = {{{4, 64}}, {{6, 32}, {2, 32}}};
    form.num_out = 48;
    return form;
  }

  std::mt19937 random_{std::random_device{}()};
  int32_t num_slots_ = 0;
  std::unique_ptr<Host> host_;
  std::vector<std::unique_ptr<StoredWeight>> stored_;
};

}  // namespace quire::kernels
