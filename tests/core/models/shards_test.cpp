// Stages with several shards (tensor parallel): their results are bit-identical to those of one shard, for
// every family.
#include <algorithm>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/models/shard_spec.h"
#include "tests/core/models/golden_file.h"
#include "tests/core/models/transformer_runner.h"
#include "tests/support/case_stride.h"
#include "tests/support/golden_families.h"

namespace quire::testing {
namespace {

class ShardedFamilies : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!open_test_device()->has(kernels::kCapabilityShards))
      GTEST_SKIP() << "this device does not split layers";
    if (const std::string refusal = refusal_of(directory_); !refusal.empty()) GTEST_SKIP() << refusal;
    ids_ = read_ids(family_.golden(), "input_ids");
    whole_ = TransformerRunner(load_model(directory_), {}).logits(ids_, 512);
  }

  const FamilyDirectory family_{GetParam()};
  const std::string& directory_ = family_.path();
  TokenIds ids_;
  std::vector<float> whole_;
};

TEST_P(ShardedFamilies, EqualOneShard) {
  for (const int32_t num_shards : {2, 3, 4}) {
    SCOPED_TRACE(num_shards);
    TransformerRunner shards(load_shards(directory_, num_shards), {});
    EXPECT_TRUE(shards.logits(ids_, 512) == whole_);
  }
  EXPECT_LE(golden_error(whole_, family_.golden()), 2e-3);
}

// Each shard quantizes the whole input row of a matrix, so its blocks have the same scales as with one shard.
TEST_P(ShardedFamilies, EqualOneShardWithByteActivations) {
  constexpr auto kByte = kernels::ActivationDtype::i8;
  if (!runs_activations(kByte)) GTEST_SKIP() << "this device does not quantize activations to bytes";
  const std::vector<float> whole = TransformerRunner(load_model(directory_, kByte), {}).logits(ids_, 512);
  TransformerRunner shards(load_model(directory_, kByte, 3), {});
  EXPECT_TRUE(shards.logits(ids_, 512) == whole);
}

TEST_P(ShardedFamilies, ChunksPagesAndOtherSequencesChangeNothing) {
  RunnerOptions options;
  options.page_tokens = 4;
  options.num_pages = 8 * 128;
  TransformerRunner runner(load_shards(directory_, 2), options);
  EXPECT_TRUE(runner.logits(ids_, 7, 3) == whole_);

  TokenIds others(ids_.rbegin(), ids_.rend());
  others.resize(41);
  const std::vector<float> alone = runner.logits(others, 41, 5);
  const std::vector<float> together = runner.step({{1, 0, others}, {2, 0, ids_}});
  const auto middle = together.begin() + static_cast<ptrdiff_t>(alone.size());
  EXPECT_TRUE(std::equal(alone.begin(), alone.end(), together.begin()));
  EXPECT_TRUE(std::equal(whole_.begin(), whole_.end(), middle));
}

INSTANTIATE_TEST_SUITE_P(Golden, ShardedFamilies,
                         ::testing::ValuesIn(thin_if_sanitized(golden_families(), 12)),
                         [](const auto& family) { return family.param; });

class Shards : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!open_test_device()->has(kernels::kCapabilityShards))
      GTEST_SKIP() << "this device does not split layers";
  }
};

std::shared_ptr<const Model> load_on_two_devices(int32_t num_shards) {
  ModelOptions options;
  options.source = open_model_source(posix_file_system(), QUIRE_EMBEDDED_MODEL);
  options.devices = {open_test_device(), open_second_test_device()};
  options.num_shards = num_shards;
  const int32_t num_layers = options.source->config().num_layers;
  const std::vector<int32_t> counts = {3, num_layers - 3};
  options.placement = place_by_counts(counts, num_layers);
  return Model::load(options);
}

// A model with integer-coded matrices, where 8-bit activations change the computation.
TEST_F(Shards, QuantizeActivationsAsOneShardDoes) {
  constexpr auto kByte = kernels::ActivationDtype::i8;
  if (!runs_activations(kByte)) GTEST_SKIP() << "this device does not quantize activations to bytes";
  TokenIds ids(70);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<TokenId>(5 * i + 1);
  const std::vector<float> whole =
      TransformerRunner(load_model(QUIRE_EMBEDDED_MODEL, kByte), {}).logits(ids, 512);
  EXPECT_FALSE(whole == TransformerRunner(load_model(QUIRE_EMBEDDED_MODEL), {}).logits(ids, 512));
  for (const int32_t num_shards : {2, 3, 4}) {
    TransformerRunner shards(load_model(QUIRE_EMBEDDED_MODEL, kByte, num_shards), {});
    EXPECT_TRUE(shards.logits(ids, 512) == whole) << num_shards;
    EXPECT_TRUE(shards.logits(ids, 9, 1) == whole) << num_shards;
  }
}

TEST_F(Shards, OfSeveralStagesPassTheResidualOn) {
  TokenIds ids(70);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<TokenId>(5 * i + 1);
  const std::vector<float> whole = TransformerRunner(load_model(QUIRE_EMBEDDED_MODEL), {}).logits(ids, 512);
  TransformerRunner stages(load_on_two_devices(2), {});
  EXPECT_TRUE(stages.logits(ids, 512) == whole);
  EXPECT_TRUE(stages.logits(ids, 9, 1) == whole);
}

TEST_F(Shards, StatesAfterTheLastNormAreThoseOfOneShard) {
  TokenIds ids(20);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<TokenId>(7 * i + 2);
  RunnerOptions options;
  options.wants_hidden = true;
  TransformerRunner one(load_model(QUIRE_EMBEDDED_MODEL), options);
  TransformerRunner two(load_shards(QUIRE_EMBEDDED_MODEL, 2), options);
  one.step({{0, 0, ids}});
  two.step({{0, 0, ids}});
  EXPECT_TRUE(one.hidden(20) == two.hidden(20));
}

TEST_F(Shards, HaveTheirShareOfWeightsAndPages) {
  const auto one = load_model(QUIRE_EMBEDDED_MODEL);
  const auto two = load_shards(QUIRE_EMBEDDED_MODEL, 2);
  ASSERT_EQ(two->transformer()->peers.size(), 1U);
  const auto share = [](const Transformer& of) { return double(of.stages.front().layers.front().bytes()); };
  const double whole = share(*one->transformer());
  EXPECT_LT(share(*two->transformer()), 0.6 * whole);
  EXPECT_LT(share(two->transformer()->peers.front()), 0.6 * whole);
  for (size_t i = 0; i < one->shape().caches.size(); ++i) {
    const int32_t heads = two->transformer()->shape.caches[i].num_kv_heads;
    EXPECT_EQ(heads + two->transformer()->peers.front().shape.caches[i].num_kv_heads,
              one->shape().caches[i].num_kv_heads);
  }
  EXPECT_LT(two->weight_bytes(), one->weight_bytes() * 11 / 10);
  EXPECT_EQ(two->transformer()->token_ops(), one->transformer()->token_ops());
}

TEST_F(Shards, MoreThanTheModelSupportsAreRefused) {
  for (const int32_t num_shards : {0, -1, kMaxShards + 1}) {
    try {
      (void)load_shards(QUIRE_EMBEDDED_MODEL, num_shards);
      ADD_FAILURE() << num_shards << " shards were made";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_NE(std::string(error.what()).find("num_shards"), std::string::npos);
    }
  }
}

TEST_F(Shards, EqualOneShardInTheLargestNumber) {
  TokenIds ids(12, 3);
  const std::vector<float> whole = TransformerRunner(load_model(QUIRE_EMBEDDED_MODEL), {}).logits(ids, 512);
  const int32_t most = open_test_device()->is_host() ? 16 : 8;
  EXPECT_TRUE(TransformerRunner(load_shards(QUIRE_EMBEDDED_MODEL, most), {}).logits(ids, 5) == whole);
}

}  // namespace
}  // namespace quire::testing
