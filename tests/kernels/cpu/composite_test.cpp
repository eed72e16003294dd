// The composite operations on this backend return the same bits as their primitives called one by one.
#include "kernels/interface/composite.h"

#include <gtest/gtest.h>

#include "tests/kernels/cpu/attention_reference.h"
#include "tests/kernels/cpu/cpu_device.h"

namespace quire::testing {
namespace {

using kernels::NormParams;
using kernels::Status;
using kernels::Workspace;

constexpr int32_t kHidden = 48;
constexpr int32_t kIntermediate = 80;
constexpr int32_t kTokens = 5;

WeightFixture matrix(Random& random, int32_t num_in, int32_t num_out) {
  DenseOptions options;
  options.seed = random.next();
  options.num_in = num_in;
  options.num_out = num_out;
  return make_dense(options);
}

// Buffers of one step.
struct Space {
  std::vector<float> hidden, normed, projected, qkv, attention, gate_up, activated, logits;
  explicit Space(std::vector<float> start)
      : hidden(std::move(start)),
        normed(kTokens * kHidden),
        projected(kTokens * kHidden),
        qkv(kTokens * 4 * 16 * 2),
        attention(kTokens * kHidden),
        gate_up(kTokens * 2 * kIntermediate),
        activated(kTokens * kIntermediate),
        logits(3 * 70) {}
  Workspace view() {
    Workspace space;
    space.hidden = hidden.data();
    space.normed = normed.data();
    space.scratch[size_t(kernels::Scratch::projected)] = projected.data();
    space.qkv = qkv.data();
    space.attention = attention.data();
    space.gate_up = gate_up.data();
    space.activated = activated.data();
    space.logits = logits.data();
    return space;
  }
};

NormParams norm_of(const std::vector<float>& weight) {
  NormParams norm;
  norm.weight = weight.data();
  norm.columns = kHidden;
  return norm;
}

void apply_norm(CpuDevice& device, NormParams norm, const std::vector<float>& input,
                std::vector<float>& output) {
  norm.input = input.data();
  norm.output = output.data();
  norm.rows = static_cast<int32_t>(input.size()) / kHidden;
  ASSERT_EQ(device.table().norm(device.context(), &norm), Status::ok);
}

class CompositeTest : public EachIsa {
 protected:
  CompositeTest() : random_(fresh_seed()), device_(GetParam()) {
    weight_ = random_floats(random_, kHidden);
    post_ = random_floats(random_, kHidden);
    start_ = random_floats(random_, kTokens * kHidden);
  }

  // Returns hidden + product, or hidden + post_norm(product).
  std::vector<float> joined(const std::vector<float>& product, bool with_post_norm) {
    std::vector<float> add = product;
    if (with_post_norm) apply_norm(device_, norm_of(post_), product, add);
    std::vector<float> out = start_;
    for (size_t i = 0; i < out.size(); ++i) out[i] += add[i];
    return out;
  }

  Random random_;
  CpuDevice device_;
  std::vector<float> weight_, post_, start_;
};

TEST_P(CompositeTest, MlpBlockEqualsItsPrimitives) {
  const auto gate = matrix(random_, kHidden, kIntermediate);
  const auto up = matrix(random_, kHidden, kIntermediate);
  const auto down = matrix(random_, kIntermediate, kHidden);
  const CpuWeight gate_up_weight(device_, {gate.source(), up.source()});
  const CpuWeight down_weight(device_, {down.source()});

  std::vector<float> normed(start_.size());
  apply_norm(device_, norm_of(weight_), start_, normed);
  const auto gate_up = run_linear(device_, gate_up_weight.get(), normed, kTokens, 2 * kIntermediate);
  std::vector<float> activated(kTokens * kIntermediate);
  kernels::ActivationParams activation;
  activation.input = gate_up.data();
  activation.rows = kTokens;
  activation.intermediate = kIntermediate;
  activation.output = activated.data();
  ASSERT_EQ(device_.table().activation(device_.context(), &activation), Status::ok);
  const auto product = run_linear(device_, down_weight.get(), activated, kTokens, kHidden);

  const NormParams post = norm_of(post_);
  for (const bool with_post_norm : {false, true}) {
    Space space(start_);
    kernels::MlpBlockParams params;
    params.norm = norm_of(weight_);
    params.gate_up = gate_up_weight.get();
    params.down = down_weight.get();
    params.intermediate = kIntermediate;
    params.post_norm = with_post_norm ? &post : nullptr;
    params.num_tokens = kTokens;
    params.workspace = space.view();
    ASSERT_EQ(device_.table().mlp_block(device_.context(), &params), Status::ok);
    EXPECT_EQ(space.hidden, joined(product, with_post_norm));
  }
}

TEST_P(CompositeTest, AttentionBlockEqualsItsPrimitives) {
  kernels::KvShape shape;
  shape.page_tokens = 16;
  shape.num_pages = 4;
  shape.num_kv_heads = 1;
  shape.head_dim = 16;
  const kernels::HeadShape heads = {3, 1, 16};
  const StepBatch batch({{kTokens, kTokens}}, shape, random_);
  const auto qkv_fixture = matrix(random_, kHidden, 5 * 16);
  const auto output_fixture = matrix(random_, kHidden, kHidden);
  const CpuWeight qkv_weight(device_, {qkv_fixture.source()});
  const CpuWeight output_weight(device_, {output_fixture.source()});

  std::vector<float> normed(start_.size());
  apply_norm(device_, norm_of(weight_), start_, normed);
  auto qkv = run_linear(device_, qkv_weight.get(), normed, kTokens, 5 * 16);
  PagedCache cache(shape);
  kernels::AppendKvParams append;
  append.heads = heads;
  append.qkv = qkv.data();
  append.rope = kernels::RopeStyle::none;
  append.batch = batch.view();
  append.kv_shape = shape;
  append.kv = cache.layer();
  ASSERT_EQ(device_.table().append_kv(device_.context(), &append), Status::ok);
  std::vector<float> attended(kTokens * kHidden);
  kernels::AttentionParams attention;
  attention.heads = heads;
  attention.qkv = qkv.data();
  attention.scale = 0.25f;
  attention.batch = batch.view();
  attention.kv_shape = shape;
  attention.kv = cache.layer();
  attention.output = attended.data();
  ASSERT_EQ(device_.table().attention(device_.context(), &attention), Status::ok);
  const auto product = run_linear(device_, output_weight.get(), attended, kTokens, kHidden);

  const NormParams post = norm_of(post_);
  for (const bool with_post_norm : {false, true}) {
    Space space(start_);
    PagedCache own_cache(shape);
    kernels::AttentionBlockParams params;
    params.norm = norm_of(weight_);
    params.qkv = qkv_weight.get();
    params.output = output_weight.get();
    params.heads = heads;
    params.rope = kernels::RopeStyle::none;
    params.scale = 0.25f;
    params.post_norm = with_post_norm ? &post : nullptr;
    params.batch = batch.view();
    params.kv_shape = shape;
    params.kv = own_cache.layer();
    params.workspace = space.view();
    ASSERT_EQ(device_.table().attention_block(device_.context(), &params), Status::ok);
    EXPECT_EQ(space.hidden, joined(product, with_post_norm));
    EXPECT_TRUE(own_cache == cache);
  }
}

TEST_P(CompositeTest, HeadEqualsItsPrimitives) {
  const auto fixture = matrix(random_, kHidden, 70);
  const CpuWeight weight(device_, {fixture.source()});
  const std::vector<int32_t> rows = {0, 2, 4};
  std::vector<float> picked;
  for (const int32_t row : rows) {
    picked.insert(picked.end(), start_.begin() + row * kHidden, start_.begin() + (row + 1) * kHidden);
  }
  std::vector<float> normed(picked.size());
  apply_norm(device_, norm_of(weight_), picked, normed);
  auto expected = run_linear(device_, weight.get(), normed, 3, 70);
  ASSERT_EQ(device_.table().scale_logits(device_.context(), expected.data(), 210, 0.5f, 9.0f), Status::ok);

  Space space(start_);
  kernels::HeadParams params;
  params.norm = norm_of(weight_);
  params.head = weight.get();
  params.logit_scale = 0.5f;
  params.softcap = 9.0f;
  params.vocab_size = 70;
  params.batch.num_logit_rows = 3;
  params.batch.logit_rows = rows.data();
  params.workspace = space.view();
  ASSERT_EQ(device_.table().head(device_.context(), &params), Status::ok);
  EXPECT_EQ(space.logits, expected);
}

QUIRE_FOR_EACH_ISA(CompositeTest);

}  // namespace
}  // namespace quire::testing
