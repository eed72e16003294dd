#include "core/layers/needs.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/core/layers/part_fixture.h"

namespace quire::testing {
namespace {

using kernels::Scratch;

TransformerShape shape_of(const ModelSpec& model) {
  Needs all(model);
  for (const LayerSpec& layer : model.layers) needs(layer, all);
  return all.shape();
}

TEST(Needs, EachLayerHasOneCache) {
  for (const PartCase& part : part_cases()) {
    const TransformerShape shape = shape_of(part.model);
    ASSERT_EQ(shape.caches.size(), part.model.layers.size()) << part.name;
    const bool has_pages = part.model.layers.front().find_attention() != nullptr;
    EXPECT_EQ(shape.caches.front().num_kv_heads, has_pages ? part.model.kvs.front().num_heads : 0)
        << part.name;
  }
}

TEST(Needs, MixersWithAStateHaveBytesForIt) {
  for (const PartCase& part : part_cases()) {
    const MixerSpec& mixer = part.model.layers.front().mixer;
    const bool has_state =
        !std::holds_alternative<AttentionPart>(mixer) && !std::holds_alternative<EmptyPart>(mixer);
    const uint64_t bytes = shape_of(part.model).caches.front().state_bytes;
    EXPECT_EQ(bytes > 0, has_state) << part.name;
    EXPECT_EQ(bytes % 64, 0U) << part.name;
  }
}

// At least the keys and queries of one head.
TEST(Needs, OnlyTheDeltaRuleHasMemoryForSolvedLines) {
  for (const PartCase& part : part_cases()) {
    const bool is_delta = std::holds_alternative<DeltaPart>(part.model.layers.front().mixer);
    const uint64_t bytes = shape_of(part.model).state_line_bytes;
    EXPECT_EQ(bytes >= uint64_t{2 * kernels::kStateLine * kernels::kMaxSolvedKey * 4}, is_delta) << part.name;
    EXPECT_EQ(bytes % 64, 0U) << part.name;
  }
}

TEST(Needs, SizesThatNoKernelHasAreRefused) {
  for (const PartCase& part : part_cases()) {
    ModelSpec model = part.model;
    auto* const rule = std::get_if<DeltaPart>(&model.layers.front().mixer);
    if (rule == nullptr) continue;
    rule->key_dim = kernels::kMaxStateKey + 1;
    try {
      shape_of(model);
      ADD_FAILURE() << part.name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unsupported);
    }
  }
}

TEST(Needs, EachSizeIsTheMaximumOverLayers) {
  ModelSpec model = part_cases().front().model;
  model.layers.push_back(model.layers.front());
  MlpPart& wide = *model.layers.back().dense();
  wide.intermediate = 256;
  const TransformerShape shape = shape_of(model);
  EXPECT_EQ(shape.columns.gate_up, 512);
  EXPECT_EQ(shape.columns.activated, 256);
  EXPECT_EQ(shape.max_columns, 512);
}

TEST(Needs, LayersThatSharePagesWidenTheWindow) {
  ModelSpec model = part_cases().front().model;
  model.layers.push_back(model.layers.front());
  model.layers.front().attention().sliding_window = 8;
  model.layers.back().attention().sliding_window = 32;
  model.layers.back().attention().kv_source = 0;
  EXPECT_EQ(shape_of(model).caches.front().window, 32);
  model.layers.back().attention().sliding_window = 0;  // all tokens
  EXPECT_EQ(shape_of(model).caches.front().window, 0);
}

TEST(Needs, ShardsNeedScratchForGatheredColumns) {
  const ModelSpec model = part_cases().front().model;
  EXPECT_EQ(shape_of(model).columns.at(Scratch::slice), 0);
  ShardCut shard(model, {0, 2});
  ModelSpec half = model;
  cut(half.layers.front(), true, shard);
  half.kvs = shard.kvs();
  EXPECT_EQ(shape_of(half).columns.at(Scratch::slice), kHidden / 2);
  EXPECT_EQ(shape_of(half).columns.activated, shape_of(model).columns.activated);
  EXPECT_LT(shape_of(half).columns.gate_up, shape_of(model).columns.gate_up);
}

}  // namespace
}  // namespace quire::testing
