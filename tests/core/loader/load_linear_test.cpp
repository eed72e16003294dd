#include "core/loader/load_linear.h"

#include <gtest/gtest.h>

#include "core/loader/weight_formats.h"
#include "tests/core/loader/layer_files.h"
#include "tests/support/dequantize_reference.h"
#include "tests/support/expect_error.h"
#include "tests/support/weight_source_check.h"

namespace quire {
namespace {

using kernels::WeightFormat;
using testing::bias_reference;
using testing::DenseOptions;
using testing::dequantize_reference;
using testing::expect_error;
using testing::find_defect;
using testing::LayerFiles;
using testing::make_dense;
using testing::MemoryFileSystem;
using testing::SafetensorsBuilder;
using testing::WeightFixture;

TEST(LoadLinear, LoadsDenseOfEveryFloatType) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
    DenseOptions options;
    options.num_in = 24;
    options.num_out = 17;
    options.dtype = dtype;
    options.bias = true;
    options.prescale = 2.0f;
    const WeightFixture fixture = make_dense(options);
    const LayerFiles files(fixture);
    const LinearWeight weight = files.load();
    EXPECT_EQ(weight.format(), WeightFormat::dense);
    EXPECT_EQ(find_defect(weight.source()), "");
    EXPECT_EQ(dequantize_reference(weight.source()), dequantize_reference(fixture.source()));
    EXPECT_EQ(bias_reference(weight.source()), fixture.bias);
    EXPECT_EQ(weight.size_bytes(), 24 * 17 * kernels::dtype_bytes(dtype));
    EXPECT_TRUE(files.unused().empty());
  }
}

TEST(LoadLinear, RefusesDenseOfOtherTypesAndShapes) {
  LayerFiles files(make_dense({}));
  files["weight"].dtype = "I16";
  expect_error(ErrorCode::unsupported, {"m/a.safetensors", "layer.weight", "I16"}, [&] { files.load(); });
  files["weight"].dtype = "U16";
  expect_error(ErrorCode::unsupported, {"layer.weight", "U16"}, [&] { files.load(); });
  files["weight"].dtype = "F16";
  files["weight"].shape = {32 * 32};
  expect_error(ErrorCode::format, {"layer.weight", "[1024], but [32, 32]"}, [&] { files.load(); });
}

TEST(LoadLinear, RequiresTheBiasThatTheConfigurationDeclares) {
  LayerFiles files(make_dense({}));
  EXPECT_TRUE(files.load().bias.empty());
  files.request().needs_bias = true;
  expect_error(ErrorCode::format, {"m:", "\"layer.bias\""}, [&] { files.load(); });
  files.replace("bias", "F32", {32}, std::vector<float>(32, 0.5f));
  EXPECT_EQ(files.load().bias, std::vector<float>(32, 0.5f));
}

TEST(LoadLinear, DropsABiasOfZeros) {
  LayerFiles files(make_dense({}));
  files.replace("bias", "BF16", {32}, std::vector<uint16_t>(32, 0));
  EXPECT_TRUE(files.load().bias.empty());
  EXPECT_TRUE(files.unused().empty());
}

TEST(LoadLinear, CutsAPaddedBias) {
  testing::Exl2Options options;
  options.groups = {{4, 32}};
  options.num_out = 33;
  options.bias = true;
  const WeightFixture fixture = make_exl2(options);
  LayerFiles files(fixture);
  EXPECT_EQ(files["bias"].shape, std::vector<int64_t>{64});
  EXPECT_EQ(files.load().bias, fixture.bias);
}

TEST(FindFormat, DependsOnTheTensorsAlone) {
  SafetensorsBuilder builder;
  const std::vector<int32_t> word = {0};
  for (const char* name : {"a.q_weight", "b.qweight", "c.weight", "d.bias", "e.weight", "e.q_weight"}) {
    builder.add(name, "I32", {1}, word);
  }
  MemoryFileSystem files;
  files.write("m/a.safetensors", builder.build());
  const WeightDirectory directory = WeightDirectory::open(files, "m");
  const auto name_of = [&](const char* key) { return find_format(LayerTensors(directory, key))->name; };
  EXPECT_EQ(name_of("a"), "exl2");
  EXPECT_EQ(name_of("b"), "gptq");
  EXPECT_EQ(name_of("c"), "dense");
  EXPECT_EQ(find_format(LayerTensors(directory, "d")), nullptr);
  EXPECT_FALSE(has_linear(directory, "d"));
  expect_error(ErrorCode::format, {"e.q_weight", "e.weight"}, [&] { has_linear(directory, "e"); });
  WeightReader reader(directory);
  LinearRequest request;
  request.key = "d";
  request.num_in = request.num_out = 1;
  expect_error(ErrorCode::format,
               {"m:", "\"d\"", ".q_weight, .trellis, .qweight, .weight_packed, _blocks or .weight"},
               [&] { load_linear(reader, request); });
}

}  // namespace
}  // namespace quire
