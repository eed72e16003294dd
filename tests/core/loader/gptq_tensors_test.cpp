#include "core/loader/gptq_tensors.h"

#include <functional>

#include <gtest/gtest.h>

#include "core/loader/coded_tensors.h"
#include "kernels/interface/half.h"
#include "tests/core/loader/layer_files.h"
#include "tests/support/dequantize_reference.h"
#include "tests/support/expect_error.h"
#include "tests/support/weight_source_check.h"

namespace quire {
namespace {

using testing::CodedOptions;
using testing::dequantize_reference;
using testing::expect_error;
using testing::find_defect;
using testing::LayerFiles;
using testing::make_coded;
using testing::WeightFixture;

// Returns a matrix of 64 rows in four groups of 16, and 40 columns.
WeightFixture typical(bool act_order) {
  CodedOptions options;
  options.num_in = 64;
  options.num_out = 40;
  options.group_size = 16;
  options.act_order = act_order;
  return make_coded(options);
}

TEST(GptqTensors, LoadsEveryKind) {
  for (const bool act_order : {false, true}) {
    for (const int32_t zero_offset : {0, 1}) {
      for (const int32_t group_size : {16, 24, 32, 128}) {
        CodedOptions options;
        options.num_in = 136;
        options.num_out = 40;
        options.group_size = group_size;
        options.act_order = act_order;
        options.zero_offset = zero_offset;
        options.bias = act_order;
        options.prescale = 0.5f;
        const WeightFixture fixture = make_coded(options);
        const LayerFiles files(fixture);
        const LinearWeight weight = files.load();
        EXPECT_EQ(find_defect(weight.source()), "");
        EXPECT_TRUE(files.unused().empty());
        EXPECT_EQ(dequantize_reference(weight.source()), dequantize_reference(fixture.source()));
        EXPECT_EQ(weight.bias, fixture.bias);
      }
    }
  }
}

TEST(GptqTensors, ReadsRowsInOrderWithoutGroupIndexAndWithOneOfZeros) {
  const WeightFixture fixture = typical(false);
  for (const int32_t group_size : {0, 16}) {
    LayerFiles without(fixture);
    without.remove("g_idx");
    without.quantization().scheme.group_size = group_size;
    EXPECT_EQ(dequantize_reference(without.load().source()), dequantize_reference(fixture.source()));
    LayerFiles zeros(fixture);
    zeros.replace("g_idx", "I32", {64}, std::vector<int32_t>(64, 0));
    zeros.quantization().scheme.group_size = group_size;
    EXPECT_EQ(dequantize_reference(zeros.load().source()), dequantize_reference(fixture.source()));
  }
}

TEST(GptqTensors, AcceptsColumnsPaddedTo32) {
  CodedOptions options;
  options.num_out = 64;
  WeightFixture fixture = make_coded(options);
  LayerFiles files(fixture);
  files.request().num_out = 37;
  fixture.num_out = 37;
  EXPECT_EQ(dequantize_reference(files.load().source()), dequantize_reference(fixture.source()));
}

TEST(GptqTensors, KeepsScalesOfOtherFloatTypes) {
  const WeightFixture fixture = typical(true);
  LayerFiles files(fixture);
  std::vector<float> wide;
  for (size_t i = 0; i < fixture.scales.size(); i += 2) {
    const auto half = static_cast<uint16_t>(fixture.scales[i] | fixture.scales[i + 1] << 8);
    wide.push_back(kernels::half_to_float(half));
  }
  files.replace("scales", "F32", {4, 40}, wide);
  EXPECT_EQ(dequantize_reference(files.load().source()), dequantize_reference(fixture.source()));
}

TEST(GptqTensors, TakesEveryZeroPointOfBothVersions) {
  for (const int32_t zero_offset : {0, 1}) {
    LayerFiles files(typical(false));
    files.quantization().gptq_v2 = zero_offset == 0;
    std::vector<uint32_t> zeros(4 * 5, 0xfedcba98U);
    zeros[0] = 0x76543210U;
    files.replace("qzeros", "I32", {4, 5}, zeros);
    files.replace("qweight", "I32", {8, 40}, std::vector<uint32_t>(8 * 40, 0));
    files.replace("scales", "F16", {4, 40}, std::vector<uint16_t>(4 * 40, 0x3c00));
    const std::vector<float> matrix = dequantize_reference(files.load().source());
    for (size_t n = 0; n < 16; ++n)
      EXPECT_EQ(matrix[n], -static_cast<float>(n) - static_cast<float>(zero_offset));
  }
}

struct GptqMutation {
  const char* name;
  ErrorCode code;
  std::vector<std::string> words;
  std::function<void(LayerFiles&)> apply;
};

class MalformedGptq : public ::testing::TestWithParam<GptqMutation> {};

TEST_P(MalformedGptq, IsRefusedNamingFileAndTensor) {
  LayerFiles files(typical(true));
  GetParam().apply(files);
  for (const std::string& word : GetParam().words) {
    expect_error(GetParam().code, {"m/a.safetensors", word}, [&] { files.load(); });
  }
}

template <typename T>
void resize(LayerFiles& files, const std::string& suffix, std::vector<int64_t> shape) {
  size_t count = 1;
  for (const int64_t extent : shape) count *= static_cast<size_t>(extent);
  files.replace(suffix, files[suffix].dtype, std::move(shape), std::vector<T>(count));
}

const GptqMutation kGptqBends[] = {
    {"group_too_large",
     ErrorCode::format,
     {"layer.g_idx", "row 5 is in group 4 of 4"},
     [](auto& f) { f["g_idx"].template set<int32_t>(5, 4); }},
    {"group_negative",
     ErrorCode::format,
     {"layer.g_idx", "row 0 is in group -1"},
     [](auto& f) { f["g_idx"].template set<int32_t>(0, -1); }},
    {"group_huge",
     ErrorCode::format,
     {"row 63 is in group 2147483647"},
     [](auto& f) { f["g_idx"].template set<int32_t>(63, INT32_MAX); }},
    {"groups_short",
     ErrorCode::format,
     {"layer.g_idx", "[63], but [64]"},
     [](auto& f) { resize<int32_t>(f, "g_idx", {63}); }},
    {"groups_type",
     ErrorCode::format,
     {"layer.g_idx", "type I16, but I32"},
     [](auto& f) { f.replace("g_idx", "I16", {64}, std::vector<int16_t>(64)); }},
    {"no_groups",
     ErrorCode::format,
     {"layer.scales", "0 groups for 64 rows"},
     [](auto& f) {
       resize<uint16_t>(f, "scales", {0, 40});
     }},
    {"more_groups_than_rows",
     ErrorCode::format,
     {"65 groups for 64 rows"},
     [](auto& f) {
       resize<uint16_t>(f, "scales", {65, 40});
     }},
    {"huge_empty_groups",
     ErrorCode::format,
     {"groups for 64 rows"},
     [](auto& f) {
       f.replace("scales", "F16", {int64_t{1} << 57, 0}, std::vector<uint16_t>());
     }},
    {"groups_do_not_divide",
     ErrorCode::format,
     {"layer.scales", "3 groups, but 64 rows in groups of 32 make 2"},
     [](auto& f) {
       f.remove("g_idx");
       resize<uint16_t>(f, "scales", {3, 40});
     }},
    {"groups_against_config",
     ErrorCode::format,
     {"4 groups, but 64 rows in groups of 32 make 2"},
     [](auto& f) {
       f.remove("g_idx");
       f.quantization().scheme.group_size = 32;
     }},
    {"one_group_against_config",
     ErrorCode::format,
     {"4 groups, but 64 rows in groups of 64 make 1"},
     [](auto& f) {
       f.remove("g_idx");
       f.quantization().scheme.group_size = -1;
     }},
    {"scales_width",
     ErrorCode::format,
     {"layer.scales", "[4, 32], but [4, 40]"},
     [](auto& f) {
       resize<uint16_t>(f, "scales", {4, 32});
     }},
    {"scales_rank",
     ErrorCode::format,
     {"layer.scales", "2 dimensions"},
     [](auto& f) { f["scales"].shape = {160}; }},
    {"scales_nan",
     ErrorCode::numeric,
     {"layer.scales", "element 9"},
     [](auto& f) { f["scales"].template set<uint16_t>(9, 0x7e01); }},
    {"scales_beyond_half",
     ErrorCode::numeric,
     {"layer.scales", "element 0"},
     [](auto& f) {
       f.replace("scales", "F32", {4, 40}, std::vector<float>(160, 70000.0f));
     }},
    {"scales_integer",
     ErrorCode::unsupported,
     {"layer.scales", "I16"},
     [](auto& f) { f["scales"].dtype = "I16"; }},
    {"zeros_width",
     ErrorCode::format,
     {"layer.qzeros", "[4, 4], but [4, 5]"},
     [](auto& f) {
       resize<int32_t>(f, "qzeros", {4, 4});
     }},
    {"zeros_groups",
     ErrorCode::format,
     {"layer.qzeros", "[3, 5], but [4, 5]"},
     [](auto& f) {
       resize<int32_t>(f, "qzeros", {3, 5});
     }},
    {"zeros_type",
     ErrorCode::format,
     {"layer.qzeros", "type F32, but I32"},
     [](auto& f) { f["qzeros"].dtype = "F32"; }},
    {"two_bit",
     ErrorCode::unsupported,
     {"layer.qweight", "2 bit GPTQ"},
     [](auto& f) {
       resize<int32_t>(f, "qweight", {4, 40});
     }},
    {"three_bit",
     ErrorCode::unsupported,
     {"layer.qweight", "3 bit GPTQ"},
     [](auto& f) {
       resize<int32_t>(f, "qweight", {6, 40});
     }},
    {"eight_bit_with_zeros_of_four",
     ErrorCode::format,
     {"layer.qzeros", "[4, 5], but [4, 10]"},
     [](auto& f) {
       resize<int32_t>(f, "qweight", {16, 40});
     }},
    {"an_extra_tensor",
     ErrorCode::unsupported,
     {"layer.pre_quant_scale", "not supported for a matrix in the format gptq"},
     [](auto& f) { f.template replace<float>("pre_quant_scale", "F32", {1}, {1.0f}); }},
    {"weight_rows",
     ErrorCode::format,
     {"layer.qweight", "[9, 40], but 64 inputs need 8 rows"},
     [](auto& f) {
       resize<int32_t>(f, "qweight", {9, 40});
     }},
    {"weight_huge_empty",
     ErrorCode::format,
     {"layer.qweight", "inputs need 8 rows"},
     [](auto& f) {
       f.replace("qweight", "I32", {int64_t{1} << 57, 0}, std::vector<int32_t>());
     }},
    {"weight_columns",
     ErrorCode::format,
     {"layer.qweight", "48 columns, but 40"},
     [](auto& f) {
       resize<int32_t>(f, "qweight", {8, 48});
     }},
    {"weight_rank",
     ErrorCode::format,
     {"layer.qweight", "2 dimensions"},
     [](auto& f) { f["qweight"].shape = {320}; }},
    {"weight_type",
     ErrorCode::format,
     {"layer.qweight", "type F32, but I32"},
     [](auto& f) { f["qweight"].dtype = "F32"; }},
    {"outputs_no_multiple_of_8",
     ErrorCode::format,
     {"39 columns, but 39 outputs"},
     [](auto& f) {
       resize<int32_t>(f, "qweight", {8, 39});
       f.request().num_out = 39;
     }},
    {"inputs_no_multiple_of_8", ErrorCode::format, {"60 inputs"}, [](auto& f) { f.request().num_in = 60; }},
    {"bias_length",
     ErrorCode::format,
     {"layer.bias", "[39], but [40]"},
     [](auto& f) { f.replace("bias", "F16", {39}, std::vector<uint16_t>(39)); }},
    {"bias_nan",
     ErrorCode::numeric,
     {"layer.bias", "element 1"},
     [](auto& f) {
       std::vector<uint16_t> bias(40);
       bias[1] = 0x7e00;
       f.replace("bias", "F16", {40}, bias);
     }},
};

INSTANTIATE_TEST_SUITE_P(Table, MalformedGptq, ::testing::ValuesIn(kGptqBends),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(GptqTensors, NamesAMissingTensor) {
  for (const char* suffix : {"qzeros", "scales"}) {
    LayerFiles files(typical(false));
    files.remove(suffix);
    expect_error(ErrorCode::format, {"m:", std::string("layer.") + suffix}, [&] { files.load(); });
  }
}

TEST(ConsecutiveGroups, DerivesThePowerOfTwo) {
  EXPECT_EQ(consecutive_groups(11008, 86, 0, "w").back(), 85);
  EXPECT_EQ(consecutive_groups(11008, 86, 0, "w")[128], 1);
  EXPECT_EQ(consecutive_groups(100, 1, 0, "w"), std::vector<int32_t>(100, 0));
  EXPECT_EQ(consecutive_groups(100, 1, -1, "w"), std::vector<int32_t>(100, 0));
  EXPECT_EQ(consecutive_groups(96, 2, 64, "w")[64], 1);
  EXPECT_EQ(consecutive_groups(96, 4, 24, "w")[95], 3);
}

}  // namespace
}  // namespace quire
