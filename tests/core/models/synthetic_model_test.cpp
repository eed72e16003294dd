// Generated weights meet the same requirements as weights of files, and are the same for the same seed.
#include "core/models/synthetic_model.h"

#include <cmath>

#include <gtest/gtest.h>

#include "core/config/model_config.h"
#include "tests/support/dequantize_reference.h"
#include "tests/support/expect_error.h"
#include "tests/support/weight_source_check.h"

namespace quire::testing {
namespace {

LinearRequest request_of(const std::string& key) {
  LinearRequest request;
  request.key = key;
  request.num_in = 512;
  request.num_out = 160;
  return request;
}

SyntheticSpec spec_of(const std::string& format) {
  return parse_synthetic_spec("synthetic:llama-3.2-1b,format=" + format);
}

class SyntheticFormats : public ::testing::TestWithParam<const char*> {};

TEST_P(SyntheticFormats, AreValidAndOfUnitGain) {
  const auto weights = make_synthetic_weights(spec_of(GetParam()));
  for (const char* key : {"model.layers.0.mlp.down_proj", "lm_head"}) {
    const LinearWeight weight = weights->linear(request_of(key));
    EXPECT_EQ(find_defect(weight.source()), "") << key;
    double squares = 0.0;
    for (const float value : dequantize_reference(weight.source()))
      squares += static_cast<double>(value) * static_cast<double>(value);
    const double gain = squares / 160.0;
    EXPECT_GT(gain, 0.3) << key;
    EXPECT_LT(gain, 3.0) << key;
  }
}

TEST_P(SyntheticFormats, AreTheSameForTheSameSeed) {
  SyntheticSpec spec = spec_of(GetParam());
  const auto values = [&spec] {
    return dequantize_reference(make_synthetic_weights(spec)->linear(request_of("a.q_proj")).source());
  };
  const std::vector<float> first = values();
  EXPECT_EQ(values(), first);
  spec.seed = 2;
  EXPECT_NE(values(), first);
}

TEST_P(SyntheticFormats, OfTheLayoutAloneHaveTheSameSize) {
  const SyntheticSpec spec = spec_of(GetParam());
  const LinearWeight full = make_synthetic_weights(spec)->linear(request_of("a.o_proj"));
  const LinearWeight outline =
      make_synthetic_weights(spec, ReadScope::layout)->linear(request_of("a.o_proj"));
  EXPECT_EQ(outline.format(), full.format());
  EXPECT_EQ(outline.source().dense.data, nullptr);
  EXPECT_EQ(outline.source().dense.scale_in, full.source().dense.scale_in);
  EXPECT_EQ(outline.source().exl2.q_weight, nullptr);
  EXPECT_EQ(outline.source().exl2.packed_rows, full.source().exl2.packed_rows);
  EXPECT_EQ(outline.source().coded.codes, nullptr);
  EXPECT_EQ(outline.source().trellis.tiles, nullptr);
  EXPECT_EQ(outline.source().trellis.half_bits, full.source().trellis.half_bits);
}

INSTANTIATE_TEST_SUITE_P(All, SyntheticFormats,
                         ::testing::Values("exl2", "exl3", "gptq", "fp8", "gguf", "mxfp4", "f16"),
                         [](const auto& format) { return std::string(format.param); });

TEST(SyntheticSpec, RefusesUnknownNames) {
  for (const char* path :
       {"synthetic:llama-9", "synthetic:llama-3.2-1b,format=fp4", "synthetic:llama-3.2-1b,bits=9",
        "synthetic:llama-3.2-1b,bits=", "synthetic:llama-3.2-1b,head_bits=7", "synthetic:llama-3.2-1b,skew=9",
        "synthetic:llama-3.2-1b,colour=red"}) {
    expect_error(ErrorCode::invalid_argument, {"is not"}, [path] { parse_synthetic_spec(path); });
  }
}

TEST(SyntheticSpec, HasAConfigurationThatParses) {
  for (const char* shape :
       {"llama-3.2-1b", "llama-3.1-8b", "llama-3.1-70b", "qwen3-30b-a3b", "qwen3.5-2b", "qwen3.5-9b"}) {
    const auto source = open_synthetic_model(std::string("synthetic:") + shape);
    EXPECT_GE(source->config().num_layers, 16) << shape;
  }
}

TEST(SyntheticSpec, AHybridHasAttentionInEveryFourthLayer) {
  const auto source = open_synthetic_model("synthetic:qwen3.5-9b");
  const std::vector<LayerSpec>& layers = source->config().spec.layers;
  ASSERT_EQ(layers.size(), 32U);
  for (size_t i = 0; i < layers.size(); ++i)
    EXPECT_EQ(layers[i].find_attention() != nullptr, i % 4 == 3) << i;
}

// The first experts have larger scores, so they are chosen more often.
TEST(SyntheticSpec, MayHaveASkewedRouter) {
  const auto squares_of_rows = [](const char* path) {
    LinearRequest request = request_of("model.layers.0.mlp.gate");
    const auto weights = make_synthetic_weights(parse_synthetic_spec(path));
    const std::vector<float> matrix = dequantize_reference(weights->linear(request).source());
    std::vector<double> squares(static_cast<size_t>(request.num_out));
    for (size_t i = 0; i < matrix.size(); ++i)
      squares[i % squares.size()] += double{matrix[i]} * double{matrix[i]};
    return squares;
  };
  const auto even = squares_of_rows("synthetic:qwen3-30b-a3b");
  const auto skewed = squares_of_rows("synthetic:qwen3-30b-a3b,skew=2");
  const auto last = static_cast<double>(even.size() - 1) / static_cast<double>(even.size());
  EXPECT_NEAR(skewed.front() / even.front(), 1.0, 1e-6);
  EXPECT_NEAR(skewed.back() / even.back(), std::exp(-4.0 * last), 1e-3);
}

TEST(SyntheticSpec, MayHaveFewerLayers) {
  const auto source = open_synthetic_model("synthetic:qwen3-30b-a3b,layers=4");
  EXPECT_EQ(source->config().num_layers, 4);
  EXPECT_TRUE(source->config().spec.layers.front().experts() != nullptr);
}

}  // namespace
}  // namespace quire::testing
