// Tests that the planned size of a layer is the memory that its build allocates, to the byte.
#include <gtest/gtest.h>

#include "core/layers/weight_bytes.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/core/layers/part_fixture.h"

namespace quire::testing {
namespace {

std::shared_ptr<Device> open_cpu() {
  kernels::DeviceOptions options;
  options.num_threads = 1;
  return Device::open(kernels::cpu_backend(), 0, options);
}

// Visitor that counts the matrices of a layer.
class WeightCount final : public WeightVisitor {
 public:
  void matrix(const PreparedWeight& weight, double share) override {
    EXPECT_GT(share, 0.0);
    EXPECT_LE(share, 1.0);
    num_matrices += weight.bytes() != 0 ? 1 : 0;
  }
  void table(const PreparedWeight&) override { ADD_FAILURE() << "a layer has no table"; }
  void vector(const DeviceBuffer&) override {}

  size_t num_matrices = 0;
};

struct Built {
  TransformerLayer layer;
  size_t num_requests = 0;
};

void build_layer(const ModelSpec& model, const std::shared_ptr<Device>& device, BuildMode mode,
                 Built& built) {
  SyntheticTestWeights weights;
  LayerBuilder builder(model, weights, device, mode);
  build(model.layers.front(), 0, builder, builder, built.layer);
  built.num_requests = builder.num_requests();
  builder.prepare();
}

WeightBytes bytes_of(const TransformerLayer& layer) {
  WeightBytes bytes;
  each_weight(layer, bytes);
  return bytes;
}

TEST(LayerBuilder, PlannedBytesMatchAllocatedBytes) {
  const std::shared_ptr<Device> device = open_cpu();
  for (const PartCase& part : part_cases()) {
    SCOPED_TRACE(part.name);
    Built planned, prepared;
    build_layer(part.model, device, BuildMode::plan, planned);
    const uint64_t before = device->memory_use().held_bytes;
    build_layer(part.model, device, BuildMode::prepare, prepared);
    EXPECT_EQ(bytes_of(planned.layer).matrices(), bytes_of(prepared.layer).matrices());
    EXPECT_EQ(bytes_of(planned.layer).vectors(), bytes_of(prepared.layer).vectors());
    EXPECT_EQ(device->memory_use().held_bytes - before, planned.layer.taken_bytes(*device));
  }
}

TEST(LayerBuilder, EachPreparedMatrixIsVisitedOnce) {
  const std::shared_ptr<Device> device = open_cpu();
  for (const PartCase& part : part_cases()) {
    Built built;
    build_layer(part.model, device, BuildMode::prepare, built);
    WeightCount count;
    each_weight(built.layer, count);
    EXPECT_EQ(count.num_matrices, built.num_requests) << part.name;
  }
}

TEST(LayerBuilder, HandlesOfExpertsAreSetByPrepare) {
  const std::shared_ptr<Device> device = open_cpu();
  for (const PartCase& part : part_cases()) {
    if (part.model.layers.front().experts() == nullptr) continue;
    Built built;
    build_layer(part.model, device, BuildMode::prepare, built);
    const auto* const both = std::get_if<MlpAndExpertsLayer>(&built.layer.feed_forward.part);
    const ExpertsLayer& experts =
        both != nullptr ? both->experts : std::get<ExpertsLayer>(built.layer.feed_forward.part);
    ASSERT_EQ(experts.down.handles.size(), 4U) << part.name;
    EXPECT_EQ(experts.down.handles.back(), experts.down.matrices.back().get()) << part.name;
  }
}

}  // namespace
}  // namespace quire::testing
