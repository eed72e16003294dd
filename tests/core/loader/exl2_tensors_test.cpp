#include "core/loader/exl2_tensors.h"

#include <functional>
#include <numeric>

#include <gtest/gtest.h>

#include "tests/core/loader/layer_files.h"
#include "tests/support/case_stride.h"
#include "tests/support/dequantize_reference.h"
#include "tests/support/expect_error.h"
#include "tests/support/weight_source_check.h"

namespace quire {
namespace {

using testing::dequantize_reference;
using testing::Exl2Options;
using testing::expect_error;
using testing::find_defect;
using testing::LayerFiles;
using testing::make_exl2;
using testing::mixed_groups;
using testing::WeightFixture;

// Returns a matrix of 192 rows, 64 each with 8, 5 and 2 bits in groups of 32, and 64 columns.
WeightFixture typical() {
  Exl2Options options;
  options.groups = mixed_groups({8, 5, 2}, 192, 32);
  options.num_out = 64;
  return make_exl2(options);
}

TEST(Exl2Tensors, LoadsEveryMixOfWidths) {
  const std::vector<std::vector<int32_t>> kMixes = {{8},    {6},   {5}, {4}, {3}, {2}, {8, 6, 5, 4, 3, 2},
                                                    {6, 5}, {4, 2}};
  for (const auto& bits : kMixes) {
    for (const int32_t group_size : {32, 64, 128}) {
      for (const int32_t num_out : {32, 33, 97, 128}) {
        Exl2Options options;
        options.groups = mixed_groups(bits, 32 * 13, group_size);
        options.num_out = num_out;
        options.bias = num_out == 97;
        options.prescale = num_out == 128 ? 0.625f : 1.0f;
        const WeightFixture fixture = make_exl2(options);
        const LayerFiles files(fixture);
        const LinearWeight weight = files.load();
        EXPECT_EQ(find_defect(weight.source()), "");
        EXPECT_TRUE(files.unused().empty());
        ASSERT_EQ(dequantize_reference(weight.source()), dequantize_reference(fixture.source()));
        EXPECT_EQ(weight.bias, fixture.bias);
        EXPECT_EQ(weight.prescale, fixture.prescale);
      }
    }
  }
}

TEST(Exl2Tensors, LeavesOutAPermutationThatChangesNothing) {
  Exl2Options options;
  options.groups = {{4, 64}};
  options.permute_rows = false;
  EXPECT_TRUE(LayerFiles(make_exl2(options)).load().row_order.empty());
}

TEST(Exl2Tensors, DerivesTensorsThatOldConvertersStored) {
  const WeightFixture fixture = typical();
  LayerFiles files(fixture);
  files.replace<int32_t>("q_perm", "I32", {3}, {9999999, -1, 7});
  files.replace<int16_t>("q_group_map", "I16", {2}, {-1, -1});
  EXPECT_EQ(files.load().row_order, fixture.row_order);
  EXPECT_TRUE(files.unused().empty());
}

struct Exl2Mutation {
  const char* name;
  ErrorCode code;
  std::vector<std::string> words;
  std::function<void(LayerFiles&)> apply;
};

class MalformedExl2 : public ::testing::TestWithParam<Exl2Mutation> {};

TEST_P(MalformedExl2, IsRefusedNamingFileAndTensor) {
  LayerFiles files(typical());
  GetParam().apply(files);
  for (const std::string& word : GetParam().words) {
    expect_error(GetParam().code, {"m/a.safetensors", word}, [&] { files.load(); });
  }
}

void set_group(LayerFiles& files, size_t group, int16_t bits, int16_t first) {
  files["q_groups"].set<int16_t>(2 * group, bits);
  files["q_groups"].set<int16_t>(2 * group + 1, first);
}

// Groups of typical(): (8,0) (8,8) (5,16) (5,21) (2,26) (2,28); 30 packed rows.
const Exl2Mutation kExl2Mutations[] = {
    {"bits_0",
     ErrorCode::format,
     {"layer.q_groups", "group 5 has 0 bits"},
     [](auto& f) { set_group(f, 5, 0, 28); }},
    {"bits_1", ErrorCode::format, {"group 5 has 1 bits"}, [](auto& f) { set_group(f, 5, 1, 28); }},
    {"bits_7", ErrorCode::format, {"group 0 has 7 bits"}, [](auto& f) { set_group(f, 0, 7, 0); }},
    {"bits_9", ErrorCode::format, {"group 0 has 9 bits"}, [](auto& f) { set_group(f, 0, 9, 0); }},
    {"bits_16", ErrorCode::format, {"group 0 has 16 bits"}, [](auto& f) { set_group(f, 0, 16, 0); }},
    {"bits_negative", ErrorCode::format, {"group 1 has -4 bits"}, [](auto& f) { set_group(f, 1, -4, 8); }},
    {"bits_increase",
     ErrorCode::format,
     {"group 1 has 8 bits after 4"},
     [](auto& f) { set_group(f, 0, 4, 0); }},
    {"first_not_0",
     ErrorCode::format,
     {"group 0 begins at packed row 1"},
     [](auto& f) { set_group(f, 0, 8, 1); }},
    {"rows_equal",
     ErrorCode::format,
     {"group 1 has packed rows 16 to 16"},
     [](auto& f) { set_group(f, 1, 8, 16); }},
    {"rows_decrease",
     ErrorCode::format,
     {"group 1 has packed rows 24 to 16"},
     [](auto& f) { set_group(f, 1, 8, 24); }},
    {"rows_beyond", ErrorCode::format, {"has packed rows 30 to 30"}, [](auto& f) { set_group(f, 5, 2, 30); }},
    {"rows_negative",
     ErrorCode::format,
     {"has packed rows 65535 to 30"},
     [](auto& f) { set_group(f, 5, 2, -1); }},
    {"rows_uneven",
     ErrorCode::format,
     {"not a multiple of 32 rows of 8 bits"},
     [](auto& f) { set_group(f, 1, 8, 9); }},
    {"rows_straddle",
     ErrorCode::format,
     {"not a multiple of 32 rows of 5 bits"},
     [](auto& f) { set_group(f, 3, 5, 22); }},
    {"rows_of_two_bits",
     ErrorCode::format,
     {"hold 176 rows, but 192"},
     [](auto& f) {
       f.replace("q_weight", "I32", {29, 64}, std::vector<int32_t>(29 * 64));
     }},
    {"rows_too_many",
     ErrorCode::format,
     {"hold 208 rows, but 192"},
     [](auto& f) {
       f.replace("q_weight", "I32", {31, 64}, std::vector<int32_t>(31 * 64));
     }},
    {"groups_odd",
     ErrorCode::format,
     {"layer.q_groups", "[11], but [12]"},
     [](auto& f) { f.replace("q_groups", "I16", {11}, std::vector<int16_t>(11)); }},
    {"groups_square",
     ErrorCode::format,
     {"layer.q_groups", "[6, 2], but [12]"},
     [](auto& f) {
       f["q_groups"].shape = {6, 2};
     }},
    {"groups_i32",
     ErrorCode::format,
     {"layer.q_groups", "type I32, but I16"},
     [](auto& f) { f.replace("q_groups", "I32", {12}, std::vector<int32_t>(12)); }},
    {"no_groups",
     ErrorCode::format,
     {"layer.q_scale", "has no groups"},
     [](auto& f) {
       f.replace("q_scale", "I32", {0, 8}, std::vector<int32_t>());
     }},
    {"more_groups_than_rows",
     ErrorCode::format,
     {"layer.q_weight", "30 packed rows do not hold"},
     [](auto& f) {
       f.replace("q_scale", "I32", {31, 8}, std::vector<int32_t>(31 * 8));
     }},
    {"huge_empty_groups",
     ErrorCode::format,
     {"do not hold"},
     [](auto& f) {
       f.replace("q_scale", "I32", {int64_t{1} << 57, 0}, std::vector<int32_t>());
     }},
    {"scale_width",
     ErrorCode::format,
     {"layer.q_scale", "[6, 4], but [6, 8]"},
     [](auto& f) {
       f.replace("q_scale", "I32", {6, 4}, std::vector<int32_t>(6 * 4));
     }},
    {"scale_rank",
     ErrorCode::format,
     {"layer.q_scale", "[48], but 2 dimensions"},
     [](auto& f) { f["q_scale"].shape = {48}; }},
    {"scale_type",
     ErrorCode::format,
     {"layer.q_scale", "type F32, but I32"},
     [](auto& f) { f["q_scale"].dtype = "F32"; }},
    {"scale_max_length",
     ErrorCode::format,
     {"layer.q_scale_max", "[5], but [6]"},
     [](auto& f) { f.replace("q_scale_max", "F16", {5}, std::vector<uint16_t>(5)); }},
    {"scale_max_type",
     ErrorCode::format,
     {"layer.q_scale_max", "type BF16, but F16"},
     [](auto& f) { f["q_scale_max"].dtype = "BF16"; }},
    {"scale_max_nan",
     ErrorCode::numeric,
     {"layer.q_scale_max", "element 2"},
     [](auto& f) { f["q_scale_max"].template set<uint16_t>(2, 0x7e00); }},
    {"scale_max_infinite",
     ErrorCode::numeric,
     {"layer.q_scale_max", "element 5"},
     [](auto& f) { f["q_scale_max"].template set<uint16_t>(5, 0xfc00); }},
    {"weight_type",
     ErrorCode::format,
     {"layer.q_weight", "type U32, but I32"},
     [](auto& f) { f["q_weight"].dtype = "U32"; }},
    {"weight_rank",
     ErrorCode::format,
     {"layer.q_weight", "but 2 dimensions"},
     [](auto& f) {
       f["q_weight"].shape = {30, 64, 1};
     }},
    {"weight_narrow",
     ErrorCode::format,
     {"layer.q_weight", "has 32 columns, but 64 outputs need 64"},
     [](auto& f) {
       f["q_weight"].shape = {60, 32};
     }},
    {"weight_empty",
     ErrorCode::format,
     {"layer.q_weight", "0 packed rows"},
     [](auto& f) {
       f.replace("q_weight", "I32", {0, 64}, std::vector<int32_t>());
     }},
    {"outputs_differ",
     ErrorCode::format,
     {"layer.q_weight", "64 columns, but 96 outputs need 96"},
     [](auto& f) { f.request().num_out = 96; }},
    {"outputs_unpadded",
     ErrorCode::format,
     {"layer.q_weight", "64 columns, but 65 outputs need 96"},
     [](auto& f) { f.request().num_out = 65; }},
    {"inputs_differ",
     ErrorCode::format,
     {"layer.q_invperm", "[192], but [160]"},
     [](auto& f) { f.request().num_in = 160; }},
    {"inputs_odd",
     ErrorCode::format,
     {"191 inputs are not a multiple of 32"},
     [](auto& f) { f.request().num_in = 191; }},
    {"inputs_beyond_16_bits",
     ErrorCode::format,
     {"65568 inputs"},
     [](auto& f) { f.request().num_in = 65568; }},
    {"permutation_twice",
     ErrorCode::format,
     {"layer.q_invperm", "appears at"},
     [](auto& f) {
       f["q_invperm"].template set<int32_t>(3, 17);
       f["q_invperm"].template set<int32_t>(9, 17);
     }},
    {"permutation_negative",
     ErrorCode::format,
     {"layer.q_invperm", "element 0 is -1"},
     [](auto& f) { f["q_invperm"].template set<int32_t>(0, -1); }},
    {"permutation_large",
     ErrorCode::format,
     {"layer.q_invperm", "element 191 is 192"},
     [](auto& f) { f["q_invperm"].template set<int32_t>(191, 192); }},
    {"permutation_huge",
     ErrorCode::format,
     {"element 7 is 2147483647"},
     [](auto& f) { f["q_invperm"].template set<int32_t>(7, INT32_MAX); }},
    {"permutation_type",
     ErrorCode::format,
     {"layer.q_invperm", "type I64, but I32"},
     [](auto& f) { f.replace("q_invperm", "I64", {192}, std::vector<int64_t>(192)); }},
};

INSTANTIATE_TEST_SUITE_P(Table, MalformedExl2, ::testing::ValuesIn(kExl2Mutations),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(Exl2Tensors, NamesAMissingTensor) {
  for (const char* suffix : {"q_groups", "q_scale", "q_scale_max", "q_invperm"}) {
    LayerFiles files(typical());
    files.remove(suffix);
    expect_error(ErrorCode::format, {"m:", std::string("layer.") + suffix}, [&] { files.load(); });
  }
}

// Random changes to the small tensors: the layer is either rejected or consistent.
TEST(Exl2Tensors, StaysValidUnderRandomChanges) {
  testing::Random random(7);
  int refused = 0;
  const int num_rounds = 3000 / testing::stride_if_sanitized(5);
  for (int round = 0; round < num_rounds; ++round) {
    LayerFiles files(typical());
    const char* const kSuffixes[] = {"q_groups", "q_scale_max", "q_invperm"};
    auto& tensor = files[kSuffixes[random.below(3)]];
    tensor.bytes[random.below(static_cast<uint32_t>(tensor.bytes.size()))] =
        static_cast<char>(random.below(256));
    try {
      const LinearWeight weight = files.load();
      ASSERT_EQ(find_defect(weight.source()), "");
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, num_rounds / 3);
}

TEST(InvertPermutation, UndoesRandomOnes) {
  testing::Random random(3);
  for (const int32_t length : {2, 3, 100, 65536}) {
    const std::vector<int32_t> order = random.permutation(length);
    const std::vector<int32_t> inverse = invert_permutation(order, "p");
    if (inverse.empty()) continue;  // the identity
    for (size_t i = 0; i < order.size(); ++i)
      ASSERT_EQ(inverse[static_cast<size_t>(order[i])], static_cast<int32_t>(i));
  }
}

}  // namespace
}  // namespace quire
