#include "core/models/placement.h"

#include <gtest/gtest.h>

#include "core/base/error.h"

namespace quire::testing {
namespace {

TEST(Placement, RunsAreConsecutiveLayers) {
  EXPECT_EQ(layer_ranges({{0, 0, 2, 2, 2, 0}}), (std::vector<LayerRange>{{0, 0, 2}, {2, 2, 5}, {0, 5, 6}}));
  EXPECT_EQ(layer_ranges(place_on_one_device(3)), (std::vector<LayerRange>{{0, 0, 3}}));
  EXPECT_TRUE(layer_ranges({}).empty());
}

Placement with_ends(std::vector<int32_t> layers, int32_t embedding, int32_t head) {
  Placement placement = {std::move(layers)};
  placement.embedding_device = embedding;
  placement.head_device = head;
  return placement;
}

TEST(Placement, EndsMayLieOnOtherDevicesThanTheirLayers) {
  EXPECT_EQ(layer_ranges(with_ends({1, 1, 1}, 0, 0)),
            (std::vector<LayerRange>{{0, 0, 0}, {1, 0, 3}, {0, 3, 3}}));
  EXPECT_EQ(layer_ranges(with_ends({0, 1, 1}, 0, 2)),
            (std::vector<LayerRange>{{0, 0, 1}, {1, 1, 3}, {2, 3, 3}}));
  EXPECT_EQ(layer_ranges(with_ends({0, 0}, 0, 0)), (std::vector<LayerRange>{{0, 0, 2}}));
  EXPECT_NO_THROW(require_placement(with_ends({1, 1, 1}, 0, 0), 3, 2));
  EXPECT_THROW(require_placement(with_ends({1, 1, 1}, 2, 0), 3, 2), Error);
  EXPECT_THROW(require_placement(with_ends({1, 1, 1}, 0, 2), 3, 2), Error);
}

TEST(Placement, CountsAreAssignedInOrder) {
  const std::vector<int32_t> counts = {2, 0, 3};
  EXPECT_EQ(place_by_counts(counts, 5), (Placement{{0, 0, 2, 2, 2}}));
}

TEST(Placement, CountsMustAddUpToTheLayersOfTheModel) {
  for (const std::vector<int32_t>& counts : {std::vector<int32_t>{2, 2}, std::vector<int32_t>{3, 3},
                                             std::vector<int32_t>{6, -1}, std::vector<int32_t>{}}) {
    EXPECT_THROW((void)place_by_counts(counts, 5), Error);
  }
}

TEST(StagePlaces, TakeCardsByTheNumberOfShards) {
  using Places = std::vector<StagePlace>;
  EXPECT_EQ(stage_places({false, false}, 1), (Places{{0, false}, {1, false}}));
  EXPECT_EQ(stage_places({false, false}, 2), (Places{{0, true}}));
  EXPECT_EQ(stage_places({false, false, false, false}, 2), (Places{{0, true}, {2, true}}));
  EXPECT_EQ(stage_places({false, false, true}, 2), (Places{{0, true}, {2, false}}));
  EXPECT_EQ(stage_places({false, true}, 2), (Places{{0, false}, {1, false}}))
      << "all shards on the only card";
  EXPECT_EQ(stage_places({true}, 3), (Places{{0, false}}));
}

TEST(StagePlaces, RefuseCardsThatAreNoMultiple) {
  for (const std::vector<bool>& is_host :
       {std::vector<bool>{false, false, false}, {false, true, false}, {true, false, false, false}}) {
    try {
      (void)stage_places(is_host, 2);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_NE(std::string(error.what()).find("num_shards is 2"), std::string::npos) << error.what();
    }
  }
}

TEST(Placement, ShardsLieOnTheDevicesAfterTheFirst) {
  Placement placement = {{0, 0, 2}};
  placement.spreads = {true, false, false};
  EXPECT_EQ(placement.device_of_shard(0, 1), 1);
  EXPECT_EQ(placement.device_of_shard(2, 1), 2);
  require_placement(placement, 3, 3, 2);
  EXPECT_THROW(require_placement(placement, 3, 3, 4), Error) << "more shards than devices";
  placement = {{0}};
  placement.spreads = {true};
  EXPECT_THROW(require_placement(placement, 1, 2, 2), Error) << "spreads of other devices";
}

}  // namespace
}  // namespace quire::testing
