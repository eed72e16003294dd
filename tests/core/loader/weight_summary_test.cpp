#include "core/loader/weight_summary.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "tests/support/memory_file_system.h"
#include "tests/support/quantized_fixture.h"

namespace quire {
namespace {

using testing::MemoryFileSystem;
using testing::SafetensorsBuilder;

WeightDirectory directory_of(const SafetensorsBuilder& builder) {
  MemoryFileSystem files;
  files.write("m/a.safetensors", builder.build());
  return WeightDirectory::open(files, "m");
}

TEST(WeightSummary, CountsWeightsAndBytesByLayer) {
  testing::Exl2Options exl2;
  exl2.groups = {{4, 64}};
  exl2.num_out = 32;
  testing::CodedOptions gptq;
  gptq.num_in = 64;
  gptq.num_out = 32;
  gptq.group_size = 64;
  SafetensorsBuilder builder;
  add_weight(builder, "model.layers.0.self_attn.q_proj", make_exl2(exl2));
  add_weight(builder, "model.layers.10.self_attn.q_proj", make_coded(gptq));
  add_weight(builder, "model.layers.2.self_attn.q_proj", testing::make_dense({}));
  testing::DenseOptions fp8;
  fp8.dtype = DType::f8_e4m3;
  fp8.num_in = 40;
  fp8.num_out = 17;
  fp8.scale_out = 8;
  fp8.scale_in = 16;
  add_weight(builder, "model.layers.11.self_attn.q_proj", testing::make_dense(fp8));
  builder.add<float>("model.layers.11.self_attn.q_proj.input_scale", "F32", {1}, {1.0f});
  builder.add<float>("model.norm.weight", "F32", {4}, std::vector<float>(4));
  builder.add<uint8_t>("model.layers.x", "U8", {1}, {0});
  builder.add<uint8_t>("bare", "U8", {1}, {0});
  const WeightSummary summary = summarize_weights(directory_of(builder), "model.layers.");

  ASSERT_EQ(summary.layers.size(), 4U);
  EXPECT_EQ(summary.layers[0].name, "0");
  EXPECT_EQ(summary.layers[0].num_weights, 64U * 32U);
  EXPECT_EQ(summary.layers[0].size_bytes, 64 * 32 / 2 + 32 / 2 + 2 + 4 + 64 * 4);
  EXPECT_EQ(summary.layers[1].name, "2");
  EXPECT_DOUBLE_EQ(summary.layers[1].bits_per_weight(), 16.0);
  EXPECT_EQ(summary.layers[2].name, "10");
  EXPECT_EQ(summary.layers[2].num_weights, 64U * 32U);
  EXPECT_EQ(summary.layers[2].size_bytes, 64 * 32 / 2 + 32 / 2 + 32 * 2 + 64 * 4);
  EXPECT_EQ(summary.layers[3].num_weights, 40U * 17U);
  EXPECT_EQ(summary.layers[3].size_bytes, 40 * 17 + 3 * 3 * 4 + 4);
  ASSERT_EQ(summary.outside.size(), 3U);
  EXPECT_EQ(summary.outside[0].name, "bare");
  EXPECT_EQ(summary.outside[1].name, "model.layers");
  EXPECT_EQ(summary.outside[2].name, "model.norm");
  EXPECT_EQ(summary.total.num_weights, 2U * 64U * 32U + 32U * 32U + 40U * 17U + 4U + 2U);
}

TEST(WeightSummary, RefusesCountsThatOverflow) {
  SafetensorsBuilder builder;
  builder.add<int32_t>("a.q_weight", "I32", {0, int64_t{1} << 62}, {});
  builder.add<int32_t>("a.q_invperm", "I32", {8}, std::vector<int32_t>(8));
  testing::expect_error(ErrorCode::format, {"a.q_weight", "overflows"},
                        [&] { summarize_weights(directory_of(builder), "model.layers."); });
}

TEST(WeightSummary, HasNoBitsWithoutWeights) {
  EXPECT_EQ(WeightShare{}.bits_per_weight(), 0.0);
}

}  // namespace
}  // namespace quire
