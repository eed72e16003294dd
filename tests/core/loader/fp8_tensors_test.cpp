#include "core/loader/fp8_tensors.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tests/core/loader/layer_files.h"
#include "tests/support/dequantize_reference.h"
#include "tests/support/expect_error.h"
#include "tests/support/weight_source_check.h"

namespace quire {
namespace {

using testing::DenseOptions;
using testing::dequantize_reference;
using testing::expect_error;
using testing::find_defect;
using testing::LayerFiles;
using testing::WeightFixture;

DenseOptions fp8_options(int32_t scale_out, int32_t scale_in) {
  DenseOptions options;
  options.dtype = DType::f8_e4m3;
  options.num_in = 40;
  options.num_out = 17;
  options.scale_out = scale_out;
  options.scale_in = scale_in;
  return options;
}

// Returns a matrix of 17 outputs and 40 inputs in blocks of 8 by 16: 3 by 3 scales.
WeightFixture in_blocks() {
  return make_dense(fp8_options(8, 16));
}

TEST(Fp8Tensors, LoadsScalesOfMatricesOutputsGroupsAndBlocks) {
  for (const auto& [scale_out, scale_in] :
       {std::pair{0, 0}, {1, 0}, {8, 16}, {1, 16}, {17, 40}, {128, 128}, {16, 39}}) {
    DenseOptions options = fp8_options(scale_out, scale_in);
    options.bias = true;
    options.prescale = 2.0f;
    const WeightFixture fixture = make_dense(options);
    const LayerFiles files(fixture);
    const LinearWeight weight = files.load();
    EXPECT_EQ(weight.format(), kernels::WeightFormat::dense);
    EXPECT_EQ(find_defect(weight.source()), "");
    EXPECT_EQ(dequantize_reference(weight.source()), dequantize_reference(fixture.source()))
        << scale_out << " x " << scale_in;
    EXPECT_EQ(weight.size_bytes(), 40 * 17 + fixture.dense_scales.size() * sizeof(float));
    EXPECT_TRUE(files.unused().empty());
  }
}

TEST(Fp8Tensors, TakesEveryShapeAndNameThatScalesHave) {
  const std::vector<std::vector<int64_t>> shapes_of_one = {{}, {1}, {1, 1}};
  for (const auto& shape : shapes_of_one) {
    LayerFiles files(make_dense(fp8_options(0, 0)));
    const std::vector<float> expected = dequantize_reference(files.load().source());
    files["weight_scale"].shape = shape;
    EXPECT_EQ(dequantize_reference(files.load().source()), expected);
  }
  LayerFiles files(make_dense(fp8_options(1, 0)));
  const std::vector<float> expected = dequantize_reference(files.load().source());
  files["weight_scale"].shape = {17};
  EXPECT_EQ(dequantize_reference(files.load().source()), expected);
  files["weight_scale_inv"] = files["weight_scale"];
  files.remove("weight_scale");
  EXPECT_EQ(dequantize_reference(files.load().source()), expected);
}

TEST(Fp8Tensors, ReadsScalesOfOtherFloatTypes) {
  LayerFiles files(make_dense(fp8_options(0, 0)));
  files.replace("weight_scale", "BF16", {1}, std::vector<uint16_t>{0x3f00});          // 0.5
  files.replace("weight", "F8_E4M3", {17, 40}, std::vector<uint8_t>(17 * 40, 0x3c));  // 1.5
  EXPECT_EQ(dequantize_reference(files.load().source()), std::vector<float>(17 * 40, 0.75f));
  files.replace("weight_scale", "F16", {}, std::vector<uint16_t>{0x4000});  // 2
  EXPECT_EQ(dequantize_reference(files.load().source()), std::vector<float>(17 * 40, 3.0f));
}

TEST(Fp8Tensors, IgnoresScalesOfActivations) {
  LayerFiles files(in_blocks());
  files.replace("input_scale", "F32", {}, std::vector<float>{0.1f});
  files.replace("input_scale_ub", "F32", {}, std::vector<float>{1200.0f});
  EXPECT_EQ(find_defect(files.load().source()), "");
  EXPECT_TRUE(files.unused().empty());
}

TEST(Fp8Tensors, RefusesAMatrixWithoutScalesOrWithTwo) {
  LayerFiles files(in_blocks());
  files["weight_scale_inv"] = files["weight_scale"];
  expect_error(ErrorCode::format,
               {"m/a.safetensors", "\"layer.weight_scale\"", "\"layer.weight_scale_inv\"", "one of them"},
               [&] { files.load(); });
  files.remove("weight_scale");
  files.remove("weight_scale_inv");
  expect_error(
      ErrorCode::format,
      {"m/a.safetensors", "\"layer.weight\"", "\"layer.weight_scale\"", "\"layer.weight_scale_inv\""},
      [&] { files.load(); });
}

TEST(Fp8Tensors, RefusesScalesWhoseShapeDoesNotMatchTheBlocks) {
  for (const std::vector<int64_t>& shape :
       std::vector<std::vector<int64_t>>{{9}, {9, 1}, {1, 9}, {3, 3, 1}}) {
    LayerFiles files(in_blocks());
    files["weight_scale"].shape = shape;
    expect_error(ErrorCode::format, {"\"layer.weight_scale\"", "8 x 16", "need [3, 3]"},
                 [&] { files.load(); });
  }
  LayerFiles files(in_blocks());
  files.quantization().scheme.block_in = 128;
  expect_error(ErrorCode::format, {"\"layer.weight_scale\"", "[3, 3]", "8 x 128", "need [3, 1]"},
               [&] { files.load(); });
  files.quantization().scheme.block_out = files.quantization().scheme.block_in = 0;
  expect_error(ErrorCode::format,
               {"\"layer.weight_scale\"", "[3, 3]", "[17, 1]", "quantization_config.weight_block_size"},
               [&] { files.load(); });
}

TEST(Fp8Tensors, RefusesNaN) {
  for (const uint8_t code : {uint8_t{0x7f}, uint8_t{0xff}}) {
    LayerFiles files(in_blocks());
    files["weight"].set<uint8_t>(679, code);
    expect_error(ErrorCode::numeric, {"m/a.safetensors", "\"layer.weight\"", "element 679", "not a number"},
                 [&] { files.load(); });
  }
  const float kBad[] = {-0.5f, 147.0f, std::numeric_limits<float>::infinity(), std::nanf("")};
  for (const float scale : kBad) {
    LayerFiles files(in_blocks());
    files["weight_scale"].set<float>(4, scale);
    expect_error(ErrorCode::numeric, {"m/a.safetensors", "\"layer.weight_scale\"", "element 4"},
                 [&] { files.load(); });
  }
}

TEST(Fp8Tensors, RefusesNaNReadByADevice) {
  LayerFiles files(in_blocks());
  files["weight"].set<uint8_t>(679, 0xff);
  files.request().read_by = ReadBy::device;
  files.while_open([](const LinearWeight& weight) {
    ASSERT_NE(weight.unread(), nullptr);
    const kernels::UnreadBytes& bytes = *weight.unread()->bytes();
    std::vector<uint8_t> piece(600);
    EXPECT_TRUE(bytes.read(bytes.owner, 0, piece.data(), 600));
    EXPECT_FALSE(bytes.read(bytes.owner, 600, piece.data(), 80));
    expect_error(ErrorCode::numeric, {"m/a.safetensors", "\"layer.weight\"", "element 679", "not a number"},
                 [&] { weight.unread()->rethrow_failure(); });
  });
}

TEST(Fp8Tensors, RefusesOtherTypes) {
  LayerFiles files(in_blocks());
  files["weight_scale"].dtype = "I32";
  expect_error(ErrorCode::unsupported, {"\"layer.weight_scale\"", "I32"}, [&] { files.load(); });
  files.replace("weight_scale", "F8_E8M0", {3, 3}, std::vector<uint8_t>(9));
  expect_error(ErrorCode::unsupported, {"\"layer.weight_scale\"", "F8_E8M0"}, [&] { files.load(); });
  files["weight"].dtype = "F8_E5M2";
  expect_error(ErrorCode::unsupported, {"\"layer.weight\"", "F8_E5M2"}, [&] { files.load(); });
}

TEST(Fp8Tensors, OfTheLayoutAloneHaveNoValues) {
  const WeightFixture fixture = in_blocks();
  testing::SafetensorsBuilder builder;
  add_weight(builder, "layer", fixture);
  testing::MemoryFileSystem files;
  files.write("m/a.safetensors", builder.build());
  const WeightDirectory directory = WeightDirectory::open(files, "m");
  WeightReader reader(directory, {}, ReadScope::layout);
  LinearRequest request;
  request.key = "layer";
  request.num_in = 40;
  request.num_out = 17;
  QuantizationConfig quantization;
  quantization.scheme.block_out = 8;
  quantization.scheme.block_in = 16;
  const LinearWeight weight = load_linear(reader, request, quantization);
  EXPECT_EQ(weight.source().dense.data, nullptr);
  EXPECT_EQ(weight.source().dense.scales, nullptr);
  EXPECT_EQ(weight.source().dense.scale_in, 16);
  EXPECT_TRUE(reader.unused().empty());
}

TEST(LoadTable, TakesTheTypesThatTablesHave) {
  testing::SafetensorsBuilder builder;
  builder.add<uint16_t>("good.weight", "BF16", {2, 3}, std::vector<uint16_t>(6));
  builder.add<uint8_t>("tiny.weight", "F8_E4M3", {2, 3}, std::vector<uint8_t>(6));
  testing::MemoryFileSystem files;
  files.write("m/a.safetensors", builder.build());
  const WeightDirectory directory = WeightDirectory::open(files, "m");
  WeightReader reader(directory);
  EXPECT_EQ(load_table(reader, "good.weight", 2, 3).dtype(), DType::bf16);
  expect_error(ErrorCode::unsupported, {"m/a.safetensors", "\"tiny.weight\"", "F8_E4M3", "F16, BF16 and F32"},
               [&] { load_table(reader, "tiny.weight", 2, 3); });
}

}  // namespace
}  // namespace quire
