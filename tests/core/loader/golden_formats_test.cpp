// Weights of each format compared bit for bit with those of the reference implementations: compressed-tensors
// 0.20, AutoAWQ 0.2.9, transformers 5.23 (5.24 for BitNet), ExLlamaV3 1.6.5. The files come from
// tests/core/loader/make_golden_formats.py and make_golden_exl3.py.
#include <optional>

#include <gtest/gtest.h>

#include "core/loader/weight_formats.h"
#include "kernels/interface/half.h"
#include "tests/support/dequantize_reference.h"
#include "tests/support/trellis_fixture.h"
#include "tests/support/weight_source_check.h"

namespace quire {
namespace {

enum class Rounded { to_f16, to_bf16 };

float to_bfloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return std::bit_cast<float>((bits + 0x7fffU + ((bits >> 16) & 1U)) & 0xffff0000U);
}

float rounded(float value, Rounded type) {
  return type == Rounded::to_f16 ? kernels::round_to_half(value) : to_bfloat16(value);
}

class GoldenFormats : public ::testing::Test {
 protected:
  GoldenFormats()
      : directory_(WeightDirectory::open(posix_file_system(), std::string(QUIRE_TEST_DATA) + "/formats")),
        reader_(directory_) {}

  LinearRequest request(const std::string& key, int32_t num_out) const {
    LinearRequest request;
    request.key = key;
    request.num_in = kInputs;
    request.num_out = num_out;
    return request;
  }

  std::vector<float> expected(const std::string& key) {
    const std::string name = "expected." + key;
    return reader_.read_floats(name, directory_.at(name).tensor->shape);
  }

  // Returns the weights as [num_in, num_out].
  std::vector<float> load(const LinearRequest& request, const QuantizationConfig& quantization = {}) {
    const LinearWeight weight = load_linear(reader_, request, quantization);
    EXPECT_EQ(testing::find_defect(weight.source()), "") << request.key;
    return testing::dequantize_reference(weight.source());
  }

  static constexpr int32_t kInputs = 64;
  WeightDirectory directory_;
  WeightReader reader_;
};

struct Case {
  const char* key;
  const char* format;
  Rounded type;
};

constexpr Case kByOutput[] = {{"packed4_group", "packed", Rounded::to_bf16},
                              {"packed4_zero", "packed", Rounded::to_bf16},
                              {"packed8_channel", "packed", Rounded::to_bf16},
                              {"packed8_zero", "packed", Rounded::to_f16},
                              {"mxfp4", "mxfp4", Rounded::to_bf16},
                              {"nvfp4", "nvfp4", Rounded::to_bf16}};

TEST_F(GoldenFormats, MatchCompressedTensors) {
  for (const Case& test : kByOutput) {
    SCOPED_TRACE(test.key);
    EXPECT_EQ(find_format(LayerTensors(directory_, test.key))->name, test.format);
    const std::vector<float> weights = load(request(test.key, 24));
    const std::vector<float> wanted = expected(test.key);
    for (size_t n = 0; n < 24; ++n)
      for (size_t k = 0; k < kInputs; ++k)
        ASSERT_EQ(rounded(weights[k * 24 + n], test.type), wanted[n * kInputs + k]) << k << ", " << n;
  }
}

TEST_F(GoldenFormats, MatchAutoAwq) {
  const std::vector<float> weights = load(request("awq", 24));
  const std::vector<float> wanted = expected("awq");
  for (size_t i = 0; i < weights.size(); ++i) ASSERT_EQ(rounded(weights[i], Rounded::to_f16), wanted[i]) << i;
}

// Each expert alone, and its interleaved halves.
TEST_F(GoldenFormats, OfGptOssMatchTransformers) {
  const std::vector<float> wanted = expected("gptoss");
  for (int32_t expert = 0; expert < 2; ++expert) {
    for (const int32_t step : {1, 2}) {
      for (int32_t first = 0; first < step; ++first) {
        LinearRequest of = request("gptoss", 16 / step);
        of.part = {.num_stored = 16, .first = first, .step = step, .num_experts = 2, .expert = expert};
        const std::vector<float> weights = load(of);
        const auto outputs = static_cast<size_t>(of.num_out);
        for (size_t k = 0; k < kInputs; ++k) {
          for (size_t n = 0; n < outputs; ++n) {
            const size_t stored = static_cast<size_t>(first) + n * static_cast<size_t>(step);
            ASSERT_EQ(weights[k * outputs + n],
                      wanted[(static_cast<size_t>(expert) * kInputs + k) * 16 + stored])
                << expert << ", " << k << ", " << n;
          }
        }
      }
    }
  }
}

QuantizationConfig bitnet(BitNetScale scale) {
  QuantizationConfig quantization;
  quantization.bitnet_scale = scale;
  return quantization;
}

TEST_F(GoldenFormats, OfBitNetMatchTransformers) {
  for (const auto& [key, scale] :
       {std::pair("bitnet_auto", BitNetScale::multiplies), {"bitnet_plain", BitNetScale::divides}}) {
    SCOPED_TRACE(key);
    EXPECT_EQ(find_format(LayerTensors(directory_, key))->name, "bitnet");
    const std::vector<float> weights = load(request(key, 24), bitnet(scale));
    const std::vector<float> wanted = expected(key);
    for (size_t n = 0; n < 24; ++n)
      for (size_t k = 0; k < kInputs; ++k)
        ASSERT_EQ(weights[k * 24 + n], wanted[n * kInputs + k]) << k << ", " << n;
  }
}

// Blocks of 128 x 128 weights of models that ExLlamaV3 made. Its reconstruction of the tiles is equal to the
// last bit of f16; transforms and scales it rounds to f16 on the way.
TEST_F(GoldenFormats, OfExl3MatchExLlamaV3) {
  for (const char* name : {"exl3_mul1_2_5", "exl3_mul1_4", "exl3_mcg_4", "exl3_3inst_6"}) {
    SCOPED_TRACE(name);
    const std::string key = name;
    EXPECT_EQ(find_format(LayerTensors(directory_, key))->name, "exl3");
    LinearRequest of = request(key, 128);
    of.num_in = 128;
    const LinearWeight weight = load_linear(reader_, of);
    const kernels::WeightSource source = weight.source();
    EXPECT_EQ(testing::find_defect(source), "");
    const std::vector<float> rotated = expected(key + ".rotated");
    const auto words = static_cast<size_t>(kernels::trellis_tile_words(source.trellis.half_bits));
    for (size_t tile = 0; tile < 8 * 8; ++tile) {
      uint16_t codes[256];
      kernels::read_trellis_tile(source.trellis.tiles + tile * words, source.trellis.half_bits, codes);
      for (size_t i = 0; i < 256; ++i) {
        const size_t row = tile / 8 * 16 + i / 16, column = tile % 8 * 16 + i % 16;
        ASSERT_EQ(kernels::half_to_float(kernels::trellis_value(source.trellis.codebook, codes[i])),
                  rotated[row * 128 + column])
            << row << ", " << column;
      }
    }
    EXPECT_EQ(testing::trellis_tiles(source), rotated);  // the formula of the tests too
    const std::vector<double> matrix = testing::trellis_matrix(source);
    const std::vector<float> rows = expected(key + ".weight");
    for (size_t i = 0; i < rows.size(); ++i) ASSERT_NEAR(matrix[i], rows[i], 2e-4) << i;
  }
}

// A slice of a fused matrix equals the same outputs of the whole matrix.
TEST_F(GoldenFormats, PartsAreColumnsOfTheWhole) {
  for (const char* key :
       {"packed4_group", "packed4_zero", "packed8_zero", "mxfp4", "nvfp4", "awq", "bitnet_auto"}) {
    SCOPED_TRACE(key);
    const QuantizationConfig quantization = bitnet(BitNetScale::multiplies);  // ignored by the other formats
    const std::vector<float> whole = load(request(key, 24), quantization);
    for (const int32_t step : {1, 3}) {
      LinearRequest of = request(key, 5);
      of.part = {.num_stored = 24, .first = 7, .step = step};
      const std::vector<float> part = load(of, quantization);
      for (size_t k = 0; k < kInputs; ++k)
        for (size_t n = 0; n < 5; ++n)
          ASSERT_EQ(part[k * 5 + n], whole[k * 24 + 7 + n * static_cast<size_t>(step)]) << k << ", " << n;
    }
  }
}

}  // namespace
}  // namespace quire
