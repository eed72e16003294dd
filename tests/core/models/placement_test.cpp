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

TEST(Placement, EndsMayLieOnOtherDevicesThanTheirLayers) {
  EXPECT_EQ(layer_ranges({{1, 1, 1}, 0, 0}), (std::vector<LayerRange>{{0, 0, 0}, {1, 0, 3}, {0, 3, 3}}));
  EXPECT_EQ(layer_ranges({{0, 1, 1}, 0, 2}), (std::vector<LayerRange>{{0, 0, 1}, {1, 1, 3}, {2, 3, 3}}));
  EXPECT_EQ(layer_ranges({{0, 0}, 0, 0}), (std::vector<LayerRange>{{0, 0, 2}}));
  EXPECT_NO_THROW(require_placement({{1, 1, 1}, 0, 0}, 3, 2));
  EXPECT_THROW(require_placement({{1, 1, 1}, 2, 0}, 3, 2), Error);
  EXPECT_THROW(require_placement({{1, 1, 1}, 0, 2}, 3, 2), Error);
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

}  // namespace
}  // namespace quire::testing
