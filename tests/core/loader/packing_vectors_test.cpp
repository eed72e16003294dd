// Test vectors produced by the packing and unpacking code of the upstream projects.
#include <gtest/gtest.h>

#include "core/loader/load_linear.h"
#include "kernels/interface/half.h"
#include "tests/core/loader/layer_files.h"
#include "tests/support/dequantize_reference.h"

namespace quire {
namespace {

using testing::dequantize_reference;
using testing::LayerFiles;
using testing::pack_codes;

struct Vector {
  int32_t bits;
  std::vector<uint32_t> words;  // codes (7 * i + 3) mod 2^bits, i in 0..31, packed in one column
};

const Vector kVectors[] = {
    {2, {0x1b1b1b1b, 0x1b1b1b1b}},
    {3, {0x53977053, 0x70539770, 0x97705397}},
    {4, {0x4d6f81a3, 0xc5e7092b, 0x4d6f81a3, 0xc5e7092b}},
    {5, {0x4dfc4543, 0x78245ba3, 0x0753617d, 0x4b276cf4, 0xe55c7066}},
    {6, {0x9f611283, 0x90bbd2d9, 0xb2579740, 0x8f201eb3, 0x9cab91d5, 0x71538703}},
    {8, {0x18110a03, 0x342d261f, 0x5049423b, 0x6c655e57, 0x88817a73, 0xa49d968f, 0xc0b9b2ab, 0xdcd5cec7}},
};

int32_t code_at(const Vector& vector, int32_t row) {
  return (7 * row + 3) % (1 << vector.bits);
}

TEST(PackingVectors, ThePackerAgrees) {
  for (const Vector& vector : kVectors) {
    std::vector<uint8_t> codes;
    for (int32_t i = 0; i < 32; ++i) codes.push_back(static_cast<uint8_t>(code_at(vector, i)));
    EXPECT_EQ(pack_codes(codes, 32, 1, vector.bits), vector.words) << vector.bits;
  }
}

TEST(PackingVectors, TheReferenceReadsThem) {
  for (const Vector& vector : kVectors) {
    testing::Exl2Options options;
    options.groups = {{vector.bits, 32}};
    options.permute_rows = false;
    LayerFiles files(make_exl2(options));
    std::vector<uint32_t> words;
    for (const uint32_t word : vector.words) words.insert(words.end(), 32, word);
    files.replace("q_weight", "I32", {vector.bits, 32}, words);
    files.replace("q_scale", "I32", {1, 4}, std::vector<uint32_t>(4, 0xffffffffU));
    files.replace<uint16_t>("q_scale_max", "F16", {1}, {0x3c00});  // 1, so that the scale is 1
    const std::vector<float> matrix = dequantize_reference(files.load().source());
    const int32_t zero = 1 << (vector.bits - 1);
    for (int32_t k = 0; k < 32; ++k) {
      for (int32_t n = 0; n < 32; ++n) {
        ASSERT_EQ(matrix[static_cast<size_t>(k * 32 + n)], static_cast<float>(code_at(vector, k) - zero))
            << vector.bits;
      }
    }
  }
}

TEST(PackingVectors, ScalesAreRoundedToHalf) {
  testing::Exl2Options options;
  options.groups = {{4, 32}};
  LayerFiles files(make_exl2(options));
  files.replace("q_weight", "I32", {4, 32}, std::vector<uint32_t>(4 * 32, 0x99999999U));  // code - zero = 1
  files.replace<uint32_t>("q_scale", "I32", {1, 4}, {0xfa50U, 0, 0, 0});
  files.replace<uint16_t>("q_scale_max", "F16", {1}, {kernels::float_to_half(0.0371f)});
  const std::vector<float> matrix = dequantize_reference(files.load().source());
  EXPECT_NEAR(matrix[0], 0.0001449585f, 5e-11f);
  EXPECT_NEAR(matrix[1], 0.0052185059f, 5e-11f);
  EXPECT_NEAR(matrix[2], 0.0175476074f, 5e-11f);
  EXPECT_EQ(matrix[3], 0.0371093750f);
}

// Compares the reference with the numbers that the fixtures were built from, without packing in between.
TEST(PackingVectors, TheReferenceAgreesWithTheCodesOfFixtures) {
  testing::Exl2Options options;
  options.groups = testing::mixed_groups({8, 6, 5, 4, 3, 2}, 384, 64);
  options.num_out = 37;
  options.permute_columns = true;
  options.prescale = 1.5f;
  const testing::WeightFixture weight = make_exl2(options);
  const std::vector<float> matrix = dequantize_reference(weight.source());
  const auto padded = static_cast<size_t>(weight.padded_out);
  for (size_t g = 0; g < weight.groups.size(); ++g) {
    const kernels::Exl2Group& group = weight.groups[g];
    for (int32_t row = group.first_row; row < group.first_row + group.num_rows; ++row) {
      for (size_t j = 0; j < 37; ++j) {
        const auto n = static_cast<size_t>(weight.column_order[j]);
        const auto k = static_cast<size_t>(row);
        const int nib = weight.scale_nibs[g * padded + n];
        const float ceiling =
            kernels::round_to_half(kernels::half_to_float(weight.q_scale_max[g]) * 1.5f / 256.0f);
        const float scale = kernels::round_to_half(static_cast<float>((nib + 1) * (nib + 1)) * ceiling);
        const int code = weight.codes[k * padded + n] - (1 << (group.bits - 1));
        ASSERT_EQ(matrix[static_cast<size_t>(weight.row_order[k]) * 37 + j],
                  static_cast<float>(code) * scale);
      }
    }
  }
}

}  // namespace
}  // namespace quire
