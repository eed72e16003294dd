// Experts in host memory: the placement changes no bit on the CPU, chunks and company change none on any
// card, the plan equals the memory of both devices, and what cannot lie apart is refused by name.
#include <cstring>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/models/transformer_shape.h"
#include "tests/core/models/golden_file.h"
#include "tests/core/models/host_experts_rig.h"
#include "tests/support/case_stride.h"
#include "tests/support/expect_error.h"
#include "tests/support/golden_families.h"

namespace quire::testing {
namespace {

int32_t num_layers_of(const std::string& path) {
  return open_model_source(posix_file_system(), path)->config().num_layers;
}

class HostExperts : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (const std::string refusal = refusal_of(path()); !refusal.empty()) GTEST_SKIP() << refusal;
    layers_ = movable_layers(path());
    if (layers_.empty()) GTEST_SKIP() << GetParam() << " has no experts that may lie apart";
  }

  const std::string& path() const { return family_.path(); }
  std::shared_ptr<const Model> load(const std::vector<int32_t>& layers) const {
    return load_placed(path(), {rig_.card(), rig_.host()}, experts_apart(num_layers_of(path()), layers));
  }
  // Returns the logits of the ids in chunks.
  static std::vector<float> logits_of(const std::shared_ptr<const Model>& model, const TokenIds& ids,
                                      int32_t chunk_tokens) {
    return TransformerRunner(model, {}).logits(ids, chunk_tokens);
  }
  TokenIds ids(int32_t count, uint32_t seed) const {
    return some_ids(count, open_model_source(posix_file_system(), path())->config().spec.vocab_size, seed);
  }

  const FamilyDirectory family_{GetParam()};
  const CardAndHost rig_;
  std::vector<int32_t> layers_;
};

TEST_P(HostExperts, GiveTheLogitsOfOneDevice) {
  const TokenIds text = ids(70, 3);
  const auto alone = load_placed(path(), {rig_.host()}, {});
  const std::vector<float> expected = logits_of(alone, text, 64);
  for (const std::vector<int32_t>& layers : {layers_, first_half(layers_)}) {
    const auto model = load(layers);
    ASSERT_TRUE(model->transformer()->host_experts.exist());
    const std::vector<float> logits = logits_of(model, text, 64);
    if (rig_.card()->table().activation_dtype == kernels::DType::f32) expect_identical(logits, expected);
    EXPECT_LE(relative_rms(logits, expected), tolerance(0.0, 2e-2));
  }
}

// On cards, too: a row's result depends on that row and the placement alone.
TEST_P(HostExperts, GiveTheSameBitsInAnyChunksAndCompany) {
  const TokenIds text = ids(40, 5);
  const auto model = load(first_half(layers_));
  const std::vector<float> whole = logits_of(model, text, 64);
  for (const int32_t chunk : {1, 7}) expect_identical(logits_of(model, text, chunk), whole);
  TransformerRunner runner(model, {});
  const Feed own = {2, 0, text};
  const std::vector<float> rows = runner.step({{0, 0, ids(33, 1)}, own, {5, 0, ids(7, 2)}});
  const auto begin = rows.begin() + ptrdiff_t{33} * runner.vocab_size();
  expect_identical({begin, begin + static_cast<ptrdiff_t>(whole.size())}, whole);
}

INSTANTIATE_TEST_SUITE_P(Families, HostExperts,
                         ::testing::ValuesIn(thin_if_sanitized(families_with_experts(), 5)),
                         [](const auto& test) { return test.param; });

// Rows are handed over within one backend, too.
TEST(HostExpertsOfOneBackend, GiveTheSameBits) {
  const FamilyDirectory family("qwen3_moe");
  const std::string& path = family.path();
  const auto first = open_test_device(), second = open_second_test_device();
  const int32_t num_layers = num_layers_of(path);
  const auto model = load_placed(path, {first, second}, experts_apart(num_layers, movable_layers(path)));
  const TokenIds text = some_ids(50, 100, 1);
  expect_identical(TransformerRunner(model, {}).logits(text, 16),
                   TransformerRunner(load_placed(path, {first}, {}), {}).logits(text, 16));
}

// Two stages, of which one is on the host beside the experts of the other.
TEST(HostExpertsOfAStage, LieBesideTheLayersOfTheHost) {
  const FamilyDirectory family("qwen3_moe");
  const std::string& path = family.path();
  const CardAndHost rig;
  Placement placement = place_on_one_device(num_layers_of(path));
  placement.device_of_layer.back() = 1;
  placement.device_of_experts.assign(placement.device_of_layer.size(), 1);
  const auto model = load_placed(path, {rig.card(), rig.host()}, placement);
  ASSERT_EQ(model->transformer()->stages.size(), 2U);
  EXPECT_FALSE(model->transformer()->stages.back().layers.back().feed_forward.on_host);
  const TokenIds text = some_ids(50, 100, 1);
  const auto alone = load_placed(path, {rig.host()}, {});
  const std::vector<float> logits = TransformerRunner(model, {}).logits(text, 16);
  EXPECT_LE(relative_rms(logits, TransformerRunner(alone, {}).logits(text, 16)), tolerance(0.0, 2e-2));
}

TEST(HostExpertsShape, HasNoCachesAndFreesTheCard) {
  const FamilyDirectory family("qwen3_moe");
  const std::string& path = family.path();
  const ModelSpec spec = open_model_source(posix_file_system(), path)->config().spec;
  const std::vector<bool> all(spec.layers.size(), true);
  const TransformerShape here = transformer_shape(spec, all), there = host_experts_shape(spec, all);
  EXPECT_TRUE(there.caches.empty());
  EXPECT_TRUE(there.rotary_dims.empty());
  EXPECT_EQ(here.expert_columns, 0);
  EXPECT_EQ(there.expert_columns, transformer_shape(spec).expert_columns);
  EXPECT_EQ(here.caches, transformer_shape(spec).caches);
}

class HostExpertsRefusal : public ::testing::Test {
 protected:
  // Expects that a load with the experts of a layer apart is refused.
  void expect_refused(const std::string& family, int32_t layer, std::string_view says,
                      int32_t num_shards = 1) {
    const FamilyDirectory directory(family);
    ModelOptions options;
    options.source = open_model_source(posix_file_system(), directory.path());
    options.devices = {rig_.card(), rig_.host()};
    options.placement = experts_apart(num_layers_of(directory.path()), {layer});
    options.num_shards = num_shards;
    expect_error(ErrorCode::unsupported, {"host_experts", says}, [&] { (void)Model::load(options); });
    EXPECT_EQ(rig_.card()->memory_use().held_bytes, 0U);
    EXPECT_EQ(rig_.host()->memory_use().held_bytes, 0U);
  }

  const CardAndHost rig_;
};

TEST_F(HostExpertsRefusal, NamesTheReason) {
  expect_refused("llama3", 0, "layer 0 cannot lie in host memory: it has no experts");
  if (rig_.card()->has(kernels::kCapabilityShards)) expect_refused("qwen3_moe", 0, "without shards", 2);
}

TEST(HostExpertsRefusalOf, BlocksThatReadMoreThanTheStream) {
  LayerSpec layer;
  layer.feed_forward = ExpertsPart();
  EXPECT_EQ(host_experts_refusal(layer), "");
  layer.parallel = true;
  EXPECT_NE(host_experts_refusal(layer).find("attention"), std::string::npos);
  layer.parallel = false;
  layer.streams = ConnectionsPart();
  EXPECT_NE(host_experts_refusal(layer).find("hyper-connections"), std::string::npos);
  layer.streams = StreamsPart();
  EXPECT_NE(host_experts_refusal(layer).find("residual streams"), std::string::npos);
}

TEST(HostExpertsPlacement, IsChecked) {
  const auto refused = [](const Placement& placement, std::string_view says) {
    expect_error(ErrorCode::invalid_argument, {"host_experts", says},
                 [&] { require_placement(placement, 3, 3); });
  };
  EXPECT_NO_THROW(require_placement({{0, 0, 1}, {2, 2, 1}}, 3, 3));
  refused({{0, 0, 1}, {2, 2}}, "the experts of 2 layers");
  refused({{0, 0, 1}, {2, 3, 1}}, "layer 1 is placed on device 3");
  refused({{0, 0, 1}, {2, -1, 1}}, "layer 1 is placed on device -1");
  refused({{0, 0, 1}, {2, 1, 1}}, "devices 2 and 1");
  EXPECT_EQ(host_experts_device({{0, 0, 1}, {0, 2, 1}}), 2);
  EXPECT_EQ(host_experts_device({{0, 0, 1}, {}}), -1);
  EXPECT_TRUE(has_host_experts({{0, 0, 1}, {0, 2, 1}}, 1));
  EXPECT_FALSE(has_host_experts({{0, 0, 1}, {0, 2, 1}}, 2));
}

// A device that fails in the middle of a step ends it, whichever of the two it is.
TEST(HostExpertsFaults, EachAllocationOfEitherDeviceMayFail) {
  const FamilyDirectory family("qwen3_moe");
  const std::string& path = family.path();
  WrappedBackend card(kernels::cpu_backend(), "card");
  WrappedBackend host(kernels::cpu_backend());
  const std::vector<std::shared_ptr<Device>> devices = {Device::open(card.backend(), 0, {}),
                                                        Device::open(host.backend(), 0, {})};
  const Placement placement = experts_apart(num_layers_of(path), movable_layers(path));
  const auto run = [&] {
    return TransformerRunner(load_placed(path, devices, placement), {}).logits(some_ids(5, 100, 1), 5);
  };
  const std::vector<float> expected = run();
  for (WrappedBackend* poor : {&card, &host}) {
    int64_t allowed = 0;
    for (bool passed = false; !passed && allowed < 1000; ++allowed) {
      poor->allow_allocations(allowed);
      try {
        expect_identical(run(), expected);
        passed = true;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::out_of_memory) << error.what();
      }
      poor->allow_allocations(WrappedBackend::kUnlimited);
      EXPECT_EQ(card.num_live(), 0);
      EXPECT_EQ(host.num_live(), 0);
    }
    EXPECT_GT(allowed, 10);
  }
}

TEST(HostExpertsFaults, ALostDeviceEndsTheStep) {
  const FamilyDirectory family("qwen3_moe");
  const std::string& path = family.path();
  CardAndHost rig;
  if (!open_test_device()->is_host()) GTEST_SKIP() << "the card is real";
  const auto model =
      load_placed(path, {rig.card(), rig.host()}, experts_apart(num_layers_of(path), movable_layers(path)));
  TransformerRunner runner(model, {});
  const std::vector<float> expected = runner.logits({1, 2, 3}, 3);
  rig.posing().lose(true);
  EXPECT_THROW((void)runner.logits({1, 2, 3}, 3), Error);
  rig.posing().lose(false);
  expect_identical(runner.logits({1, 2, 3}, 3), expected);
}

}  // namespace
}  // namespace quire::testing
