// Tests that the columns of all shards, gathered in the order of ranks, are the columns of the whole part.
#include "core/layers/shard_cut.h"

#include <algorithm>
#include <map>
#include <numeric>

#include <gtest/gtest.h>

#include "tests/core/layers/part_fixture.h"

namespace quire::testing {
namespace {

// Outputs of each matrix, by its key.
using Outputs = std::map<std::string, std::vector<int32_t>>;

void add_outputs(const MatrixPart& part, Outputs& all) {
  if (part.key.empty()) return;
  std::vector<int32_t>& outputs = all[part.key];
  for (int32_t i = 0; i < part.outputs(); ++i)
    outputs.push_back(part.order ? (*part.order)[static_cast<size_t>(i)] : i);
}

void add_outputs(const MlpPart& part, Outputs& all) {
  for (const MatrixPart& matrix : part.gate_up) add_outputs(matrix, all);
  add_outputs(part.down, all);
}

void add_outputs(const AttentionPart& part, Outputs& all) {
  if (!part.head_experts) {
    for (const MatrixPart& matrix : part.qkv) add_outputs(matrix, all);
    add_outputs(part.output, all);
  }
  if (!part.latent) return;
  add_outputs(part.latent->query, all);
  add_outputs(part.latent->expand, all);
}

// Other parts are not cut, or not by these tests.
template <typename Part>
void add_outputs(const Part&, Outputs&) {}

// Returns the outputs of the matrices that shards cut.
Outputs cut_outputs(const LayerSpec& layer) {
  Outputs all;
  std::visit([&](const auto& part) { add_outputs(part, all); }, layer.mixer);
  if (layer.dense() != nullptr) add_outputs(*layer.dense(), all);
  if (layer.experts() == nullptr) return all;
  add_outputs(layer.experts()->expert, all);
  if (layer.experts()->narrow) add_outputs(layer.experts()->narrow->up, all);
  if (layer.experts()->shared) add_outputs(*layer.experts()->shared, all);
  return all;
}

LayerSpec shard_of_layer(const ModelSpec& model, Shard of) {
  LayerSpec layer = model.layers.front();
  ShardCut shard(model, of);
  cut(layer, can_cut_heads(layer.mixer, shard), shard);
  return layer;
}

TEST(ShardCut, GatheredColumnsMatchTheUncutPart) {
  for (const PartCase& part : part_cases()) {
    const Outputs whole = cut_outputs(part.model.layers.front());
    for (const int32_t num_shards : {2, 3, 4}) {
      SCOPED_TRACE(std::string(part.name) + ", " + std::to_string(num_shards));
      Outputs gathered;
      for (int32_t rank = 0; rank < num_shards; ++rank) {
        for (const auto& [key, outputs] : cut_outputs(shard_of_layer(part.model, {rank, num_shards})))
          gathered[key].insert(gathered[key].end(), outputs.begin(), outputs.end());
      }
      EXPECT_EQ(gathered, whole);
    }
  }
}

TEST(ShardCut, SplitsHoldTheFirstColumnOfEachShard) {
  const ModelSpec model = part_cases().front().model;
  const LayerSpec second = shard_of_layer(model, {1, 3});
  const MlpPart& mlp = *second.dense();
  EXPECT_EQ(mlp.activated.starts, (std::vector<int32_t>{0, 32, 64, 96}));
  EXPECT_EQ(mlp.intermediate, mlp.activated.split().own());
  EXPECT_EQ(mlp.outputs.starts, (std::vector<int32_t>{0, 16, 32, 64}));
  EXPECT_EQ(mlp.down.outputs(), mlp.outputs.split().own());
  const AttentionPart& attention = second.attention();
  EXPECT_EQ(attention.results.starts, (std::vector<int32_t>{0, 16, 32, 64}));
  EXPECT_EQ(result_columns(attention), attention.results.split().own());
}

TEST(ShardCut, FewerColumnsThanShardsAreNotSplit) {
  const ModelSpec model = part_cases().front().model;
  const ShardCut shard(model, {0, 4});
  EXPECT_FALSE(shard.columns(3).is_split());
  EXPECT_EQ(shard.columns(4).starts, (std::vector<int32_t>{0, 1, 2, 3, 4}));
}

TEST(ShardCut, SharesDivideColumnsAndLeaveEachShardSome) {
  const ModelSpec model = part_cases().front().model;
  const auto starts = [&](std::vector<int32_t> shares, int32_t count, int32_t unit) {
    return ShardCut(model, {0, static_cast<int32_t>(shares.size()), std::move(shares)})
        .columns(count, unit)
        .starts;
  };
  EXPECT_EQ(starts({1, 1}, 256, 0), (std::vector<int32_t>{0, 128, 256}));
  EXPECT_EQ(starts({3, 1}, 256, 0), (std::vector<int32_t>{0, 192, 256}));
  EXPECT_EQ(starts({1, 1000}, 8, 1), (std::vector<int32_t>{0, 1, 8}));
  EXPECT_EQ(starts({1000, 1, 1}, 8, 1), (std::vector<int32_t>{0, 6, 7, 8}));
  EXPECT_EQ(starts({1, 1, 1000}, 3, 1), (std::vector<int32_t>{0, 1, 2, 3}));
}

TEST(ShardCut, HeadExpertsAreNotCut) {
  for (const PartCase& part : part_cases()) {
    const LayerSpec shard = shard_of_layer(part.model, {1, 2});
    const auto* const mixer = std::get_if<AttentionPart>(&shard.mixer);
    if (mixer == nullptr || !mixer->head_experts) continue;
    const AttentionPart& attention = *mixer;
    EXPECT_FALSE(attention.results.is_split());
    EXPECT_FALSE(attention.outputs.is_split());
    EXPECT_EQ(attention.heads.num_heads, 4);
  }
}

TEST(ShardCut, ActivationsOfWholeRowsAreNotSplit) {
  ModelSpec model = part_cases().front().model;
  model.layers.front().dense()->is_sparse = true;
  const LayerSpec shard = shard_of_layer(model, {0, 2});
  EXPECT_FALSE(shard.dense()->activated.is_split());
  EXPECT_TRUE(shard.dense()->outputs.is_split());
}

}  // namespace
}  // namespace quire::testing
