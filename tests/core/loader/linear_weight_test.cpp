#include "core/loader/linear_weight.h"

#include <array>

#include <gtest/gtest.h>

#include "tests/core/loader/layer_files.h"
#include "tests/support/dequantize_reference.h"

namespace quire {
namespace {

using testing::bias_reference;
using testing::dequantize_reference;
using testing::Exl2Options;
using testing::LayerFiles;
using testing::make_exl2;
using testing::mixed_groups;

LinearWeight load(int32_t num_in, int32_t num_out, uint64_t seed, bool permute_rows = true) {
  Exl2Options options;
  options.groups = mixed_groups({5, 3}, num_in, 32);
  options.num_out = num_out;
  options.permute_rows = permute_rows;
  options.bias = true;
  options.seed = seed;
  return LayerFiles(make_exl2(options)).load();
}

// Returns the product [rows, inner] x [inner, columns].
std::vector<double> multiply(const std::vector<float>& a, const std::vector<float>& b, size_t inner,
                             size_t columns) {
  std::vector<double> product(a.size() / inner * columns);
  for (size_t r = 0; r < a.size() / inner; ++r) {
    for (size_t i = 0; i < inner; ++i) {
      for (size_t c = 0; c < columns; ++c)
        product[r * columns + c] += double{a[r * inner + i]} * double{b[i * columns + c]};
    }
  }
  return product;
}

TEST(FoldRowOrder, KeepsTheProductOfProducerAndConsumer) {
  LinearWeight gate = load(64, 96, 1);
  LinearWeight up = load(64, 96, 2);
  LinearWeight down = load(96, 64, 3);
  const auto gate_before = dequantize_reference(gate.source());
  const auto up_before = dequantize_reference(up.source());
  const auto bias_before = bias_reference(gate.source());
  const auto down_before = dequantize_reference(down.source());
  const std::vector<int32_t> order = down.row_order;
  const auto gate_down = multiply(gate_before, down_before, 96, 64);

  fold_row_order(down, std::array<LinearWeight*, 2>{&gate, &up});

  EXPECT_EQ(down.source().row_order, nullptr);
  const auto gate_after = dequantize_reference(gate.source());
  const auto bias_after = bias_reference(gate.source());
  const auto up_after = dequantize_reference(up.source());
  for (size_t j = 0; j < 96; ++j) {
    const auto column = static_cast<size_t>(order[j]);
    EXPECT_EQ(bias_after[j], bias_before[column]);
    for (size_t k = 0; k < 64; ++k) {
      EXPECT_EQ(gate_after[k * 96 + j], gate_before[k * 96 + column]);
      EXPECT_EQ(up_after[k * 96 + j], up_before[k * 96 + column]);
    }
  }
  const auto folded = multiply(gate_after, dequantize_reference(down.source()), 96, 64);
  for (size_t i = 0; i < folded.size(); ++i) EXPECT_NEAR(folded[i], gate_down[i], 1e-6);
}

TEST(FoldRowOrder, DoesNothingIfRowsAreInOrder) {
  LinearWeight up = load(64, 96, 2);
  LinearWeight down = load(96, 64, 3, false);
  fold_row_order(down, std::array<LinearWeight*, 1>{&up});
  EXPECT_EQ(up.source().column_order, nullptr);
}

TEST(LinearWeight, KeepsItsBuffersWhenItMoves) {
  LinearWeight weight = load(64, 96, 1);
  const kernels::WeightSource before = weight.source();
  const LinearWeight moved = std::move(weight);
  const kernels::WeightSource after = moved.source();
  EXPECT_EQ(after.exl2.q_weight, before.exl2.q_weight);
  EXPECT_EQ(after.exl2.groups, before.exl2.groups);
  EXPECT_EQ(after.row_order, before.row_order);
  EXPECT_EQ(after.bias, before.bias);
}

}  // namespace
}  // namespace quire
