// EXL3 layers in files: all kinds, parts, and malformed tensors, each refused by name.
#include "core/loader/exl3_tensors.h"

#include <functional>
#include <map>

#include <gtest/gtest.h>

#include "core/loader/weight_formats.h"
#include "core/loader/weight_summary.h"
#include "tests/support/expect_error.h"
#include "tests/support/memory_file_system.h"
#include "tests/support/trellis_fixture.h"
#include "tests/support/weight_source_check.h"

namespace quire::testing {
namespace {

using kernels::TrellisCodebook;

// A layer in a file, which a test may change before it is loaded.
class Exl3Layer {
 public:
  explicit Exl3Layer(TrellisFixture matrix) : matrix_(std::move(matrix)) {
    request_.key = "x";
    request_.num_in = matrix_.num_in;
    request_.num_out = matrix_.num_out;
    const int64_t inputs = matrix_.padded_in(), outputs = matrix_.padded_out();
    put<uint16_t>("trellis", "I16", {inputs / 16, outputs / 16, int64_t{8} * matrix_.kind.half_bits},
                  matrix_.tiles);
    put<uint16_t>("suh", "F16", {inputs}, matrix_.input_scales);
    put<uint16_t>("svh", "F16", {outputs}, matrix_.output_scales);
    if (matrix_.kind.codebook == TrellisCodebook::mcg) put<uint32_t>("mcg", "I32", {}, {0xcbac1fedU});
    if (matrix_.kind.codebook == TrellisCodebook::mul1) put<uint32_t>("mul1", "I32", {}, {0x83dcd12dU});
  }

  template <typename T>
  void put(const std::string& suffix, const std::string& dtype, const std::vector<int64_t>& shape,
           const std::vector<T>& values) {
    tensors_[suffix] = {dtype, shape,
                        std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T))};
  }
  // Replaces a tensor by zeros of another shape or type.
  void zeros(const std::string& suffix, const std::string& dtype, const std::vector<int64_t>& shape) {
    size_t bytes = kernels::dtype_bytes(*find_stored_type(dtype)->dtype);
    for (const int64_t extent : shape) bytes *= static_cast<size_t>(extent);
    tensors_[suffix] = {dtype, shape, std::string(bytes, '\0')};
  }
  void drop(const std::string& suffix) { tensors_.erase(suffix); }
  const TrellisFixture& matrix() const { return matrix_; }
  LinearRequest& request() { return request_; }

  LinearWeight load() const {
    const WeightDirectory directory = open();
    WeightReader reader(directory);
    LinearWeight weight = load_linear(reader, request_);
    EXPECT_TRUE(reader.unused().empty());
    return weight;
  }
  WeightDirectory open() const {
    SafetensorsBuilder builder;
    for (const auto& [suffix, tensor] : tensors_)
      builder.add_bytes("x." + suffix, tensor.dtype, tensor.shape, tensor.bytes);
    MemoryFileSystem files;
    files.write("m/a.safetensors", builder.build());
    return WeightDirectory::open(files, "m");
  }

 private:
  struct Tensor {
    std::string dtype;
    std::vector<int64_t> shape;
    std::string bytes;
  };

  TrellisFixture matrix_;
  std::map<std::string, Tensor> tensors_;
  LinearRequest request_;
};

Exl3Layer layer_of(const TrellisKind& kind = {TrellisCodebook::mul1, 8}, int32_t num_in = 256,
                   int32_t num_out = 128) {
  return Exl3Layer(make_trellis(kind, num_in, num_out, 7));
}

TEST(Exl3Tensors, HaveTheirValuesInEveryKind) {
  for (const TrellisKind& kind : all_trellis_kinds()) {
    SCOPED_TRACE(name_of(kind));
    const Exl3Layer layer = layer_of(kind);
    EXPECT_EQ(find_format(LayerTensors(layer.open(), "x"))->name, "exl3");
    const LinearWeight weight = layer.load();
    EXPECT_EQ(weight.format(), kernels::WeightFormat::trellis);
    EXPECT_EQ(find_defect(weight.source()), "");
    EXPECT_EQ(trellis_matrix(weight.source()), trellis_matrix(layer.matrix().source()));
  }
}

TEST(Exl3Tensors, ArePaddedToWholeTransforms) {
  const Exl3Layer layer = layer_of({TrellisCodebook::mcg, 6}, 200, 130);
  const LinearWeight weight = layer.load();
  EXPECT_EQ(weight.num_in, 200);
  EXPECT_EQ(weight.num_out, 130);
  EXPECT_EQ(weight.padded_out, 256);
  EXPECT_EQ(trellis_matrix(weight.source()), trellis_matrix(layer.matrix().source()));
}

TEST(Exl3Tensors, MayHaveABias) {
  Exl3Layer layer = layer_of({TrellisCodebook::mul1, 8}, 128, 130);
  const std::vector<float> bias(130, 0.5f);
  layer.put<float>("bias", "F32", {130}, bias);
  EXPECT_EQ(layer.load().bias, bias);
  // As many values as columns are stored.
  layer.put<float>("bias", "F32", {256}, std::vector<float>(256, 0.5f));
  EXPECT_EQ(layer.load().bias, bias);
}

// Files of the first versions have signs in place of scales: bit i of word j is that of element 16j + i.
TEST(Exl3Tensors, MayHaveSignsInPlaceOfScales) {
  Exl3Layer layer = layer_of();
  layer.drop("suh");
  layer.drop("svh");
  std::vector<uint16_t> input_signs(16, 0), output_signs(8, 0);
  input_signs[3] = 1U << 5;
  output_signs[7] = 1U << 15;
  layer.put<uint16_t>("su", "I16", {16}, input_signs);
  layer.put<uint16_t>("sv", "I16", {8}, output_signs);
  const LinearWeight weight = layer.load();
  const kernels::TrellisSource& trellis = weight.source().trellis;
  for (size_t k = 0; k < 256; ++k) EXPECT_EQ(trellis.input_scales[k], k == 53 ? 0xbc00 : 0x3c00) << k;
  for (size_t n = 0; n < 128; ++n) EXPECT_EQ(trellis.output_scales[n], n == 127 ? 0xbc00 : 0x3c00) << n;
}

TEST(Exl3Tensors, PartsAreColumnsOfTheWhole) {
  Exl3Layer layer = layer_of({TrellisCodebook::mul1, 5}, 128, 384);
  const std::vector<double> whole = trellis_matrix(layer.load().source());
  for (const int32_t step : {1, 3}) {
    layer.request().num_out = 50;
    layer.request().part = {.num_stored = 384, .first = 120, .step = step};
    const LinearWeight part = layer.load();
    const std::vector<double> values = trellis_matrix(part.source());
    for (size_t k = 0; k < 128; ++k)
      for (size_t n = 0; n < 50; ++n)
        ASSERT_EQ(values[k * 50 + n], whole[k * 384 + 120 + n * static_cast<size_t>(step)]);
  }
}

TEST(Exl3Tensors, ReadOnlyTheLayoutIfAsked) {
  const Exl3Layer layer = layer_of();
  const WeightDirectory directory = layer.open();
  WeightReader reader(directory, {}, ReadScope::layout);
  LinearRequest request;
  request.key = "x";
  request.num_in = 256;
  request.num_out = 128;
  const LinearWeight weight = load_linear(reader, request);
  EXPECT_EQ(weight.source().trellis.tiles, nullptr);
  EXPECT_EQ(weight.source().trellis.half_bits, 8);
  EXPECT_EQ(weight.size_bytes(), layer.load().size_bytes());
}

TEST(Exl3Tensors, CountTheirWeightsAndBytes) {
  const WeightSummary summary = summarize_weights(layer_of().open(), "model.layers.");
  EXPECT_EQ(summary.total.num_weights, 256U * 128U);
  EXPECT_EQ(summary.total.size_bytes, 256U * 128U / 2 + 2 * (256 + 128) + 4);
}

struct Exl3Mutation {
  const char* name;
  std::function<void(Exl3Layer&)> bend;
  ErrorCode code;
  std::vector<std::string> words;
};

class MalformedExl3 : public ::testing::TestWithParam<Exl3Mutation> {};

TEST_P(MalformedExl3, IsRefusedNamingTheTensor) {
  Exl3Layer layer = layer_of();
  ASSERT_NO_THROW(layer.load());
  GetParam().bend(layer);
  for (const std::string& word : GetParam().words)
    expect_error(GetParam().code, {word}, [&] { layer.load(); });
}

std::function<void(Exl3Layer&)> zeros(const char* suffix, const char* dtype, std::vector<int64_t> shape) {
  return [=](Exl3Layer& layer) { layer.zeros(suffix, dtype, shape); };
}
std::function<void(Exl3Layer&)> drop(const char* suffix) {
  return [=](Exl3Layer& layer) { layer.drop(suffix); };
}
std::function<void(Exl3Layer&)> multiplier(const char* suffix, uint32_t value) {
  return [=](Exl3Layer& layer) { layer.put<uint32_t>(suffix, "I32", {}, {value}); };
}

const ErrorCode kFormat = ErrorCode::format, kLacks = ErrorCode::unsupported;
const std::vector<Exl3Mutation> kExl3Bends = {
    {"rank", zeros("trellis", "I16", {16, 512}), kFormat, {"x.trellis", "[16, 512]", "3 dimensions"}},
    {"type", zeros("trellis", "I32", {16, 8, 64}), kFormat, {"x.trellis", "I32"}},
    {"rows", zeros("trellis", "I16", {15, 8, 64}), kFormat, {"x.trellis", "15 x 8 tiles", "16 x 8"}},
    {"columns", zeros("trellis", "I16", {16, 16, 64}), kFormat, {"x.trellis", "16 x 16 tiles"}},
    {"empty", zeros("trellis", "I16", {0, 0, 64}), kFormat, {"x.trellis", "0 x 0 tiles"}},
    {"no_bits", zeros("trellis", "I16", {16, 8, 0}), kFormat, {"x.trellis", "0 words"}},
    {"half_a_bit", zeros("trellis", "I16", {16, 8, 8}), kFormat, {"x.trellis", "8 words"}},
    {"nine_bits", zeros("trellis", "I16", {16, 8, 144}), kFormat, {"x.trellis", "144 words", "1 to 8 bits"}},
    {"part_of_a_bit", zeros("trellis", "I16", {16, 8, 65}), kFormat, {"x.trellis", "65 words"}},
    {"four_and_a_half_bits", zeros("trellis", "I16", {16, 8, 72}), kLacks, {"x.trellis", "4.5 bits"}},
    {"half_bits_of_3inst",
     [](Exl3Layer& layer) {
       layer.drop("mul1");
       layer.zeros("trellis", "I16", {16, 8, 40});
     },
     kLacks,
     {"x.trellis", "2.5 bits", "mul1"}},
    {"no_input_scales", drop("suh"), kFormat, {"x.suh"}},
    {"no_output_scales", drop("svh"), kFormat, {"x.svh"}},
    {"input_scales", zeros("suh", "F16", {128}), kFormat, {"x.suh", "[256] is needed"}},
    {"output_scales", zeros("svh", "F16", {256}), kFormat, {"x.svh", "[128] is needed"}},
    {"scale_type", zeros("suh", "BF16", {256}), kFormat, {"x.suh", "BF16"}},
    {"infinite_scale",
     [](Exl3Layer& layer) {
       std::vector<uint16_t> scales(128, 0x3c00);
       scales[100] = 0x7c00;
       layer.put<uint16_t>("svh", "F16", {128}, scales);
     },
     ErrorCode::numeric,
     {"x.svh", "element 100"}},
    {"signs",
     [](Exl3Layer& layer) {
       layer.drop("suh");
       layer.zeros("su", "I16", {8});
     },
     kFormat,
     {"x.su", "[16] is needed"}},
    {"two_codebooks", multiplier("mcg", 0xcbac1fedU), kFormat, {"x.trellis", "mcg and mul1"}},
    {"multiplier", multiplier("mul1", 0x83dcd12fU), kLacks, {"x.mul1", "0x83dcd12f"}},
    {"codebook_shape", zeros("mul1", "I32", {2}), kFormat, {"x.mul1", "[2]"}},
    {"codebook_type", zeros("mul1", "F32", {}), kFormat, {"x.mul1", "F32"}},
    {"unknown_codebook", multiplier("mul2", 1), kLacks, {"x.mul2", "exl3"}},
    {"old_scale", zeros("scale", "F32", {}), kLacks, {"x.scale", "exl3"}},
    {"floats_too", zeros("weight", "F16", {128, 256}), kFormat, {"x.trellis", "x.weight"}},
    {"bias", zeros("bias", "F16", {64}), kFormat, {"x.bias"}},
};

INSTANTIATE_TEST_SUITE_P(All, MalformedExl3, ::testing::ValuesIn(kExl3Bends),
                         [](const auto& bend) { return std::string(bend.param.name); });

// Another program of ExLlamaV3 makes these beside the F16 table, or in its place.
TEST(Exl3Tensors, OfAnEmbeddingAreRefused) {
  SafetensorsBuilder builder;
  builder.add<uint16_t>("embed.weight_trellis", "I16", {4, 97}, std::vector<uint16_t>(4 * 97));
  builder.add<uint16_t>("embed.col_scales", "F16", {256}, std::vector<uint16_t>(256));
  const auto load = [](const SafetensorsBuilder& file) {
    MemoryFileSystem files;
    files.write("m/a.safetensors", file.build());
    const WeightDirectory directory = WeightDirectory::open(files, "m");
    WeightReader reader(directory);
    return load_table(reader, "embed.weight", 4, 256).shape();
  };
  expect_error(ErrorCode::unsupported, {"embed.weight_trellis", "\"embed.weight\""}, [&] { load(builder); });
  builder.add<uint16_t>("embed.weight", "F16", {4, 256}, std::vector<uint16_t>(4 * 256));
  EXPECT_EQ(load(builder), (std::vector<int64_t>{4, 256}));
}

TEST(Exl3Tensors, OfAStackAreRefused) {
  Exl3Layer layer = layer_of();
  layer.request().part.num_experts = 2;
  expect_error(ErrorCode::unsupported, {"x", "exl3"}, [&] { layer.load(); });
}

}  // namespace
}  // namespace quire::testing
