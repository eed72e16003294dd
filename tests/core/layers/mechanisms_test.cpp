#include "core/layers/mechanisms.h"

#include <gtest/gtest.h>

#include "tests/core/layers/part_fixture.h"

namespace quire::testing {
namespace {

TEST(Mechanisms, EachPartReportsItsMechanisms) {
  for (const PartCase& part : part_cases())
    EXPECT_EQ(mechanism_names(mechanisms(part.model.layers.front())), part.mechanisms) << part.name;
}

TEST(Mechanisms, LayersAddTheMechanismsAroundTheirBlocks) {
  LayerSpec layer = part_cases().front().model.layers.front();
  layer.parallel = true;
  layer.attention_norm.kind = kernels::NormKind::layer;
  layer.output_scale = {"scale", 1};
  EXPECT_EQ(mechanism_names(mechanisms(layer)),
            "layer norms, parallel attention and feed-forward, a scale at the end of a layer");
}

}  // namespace
}  // namespace quire::testing
