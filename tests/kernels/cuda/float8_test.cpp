// Compares products of E4M3 by E4M3 with sums in double precision over the codes.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/interface/specs.h"
#include "tests/kernels/cuda/cuda_device.h"
#include "tests/kernels/cuda/random_weights.h"

namespace quire::kernels {
namespace {

// Returns the nearest E4M3, with ties to even; searches all of them.
float rounded_e4m3(float value) {
  float best = 0.0f;
  int best_code = 0;
  for (int code = 0; code < 0x7f; ++code) {
    const float of_code = e4m3_to_float(static_cast<uint8_t>(code));
    const float distance = std::abs(of_code - std::abs(value)), least = std::abs(best - std::abs(value));
    if (distance < least || (distance == least && code % 2 == 0 && best_code % 2 == 1)) {
      best = of_code;
      best_code = code;
    }
  }
  return std::copysign(best, value);
}

// Returns activations as a product reads them.
std::vector<float> rounded_rows(const std::vector<float>& input, size_t rows, size_t depth) {
  std::vector<float> out(input.size());
  for (size_t r = 0; r < rows; ++r) {
    for (size_t first = 0; first < depth; first += 128) {
      const size_t end = std::min(first + 128, depth);
      float largest = 0.0f;
      for (size_t k = first; k < end; ++k) largest = std::max(largest, std::abs(input[r * depth + k]));
      const float factor = largest > 0.0f ? 448.0f / largest : 0.0f;
      for (size_t k = first; k < end; ++k)
        out[r * depth + k] = rounded_e4m3(input[r * depth + k] * factor) * (largest * (1.0f / 448.0f));
    }
  }
  return out;
}

class Float8Test : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (device_ != nullptr && (table_->mechanisms & kMechanismFloat8Activations) == 0)
      GTEST_SKIP() << "the card has no FP8 products";
  }

  Weight* prepare_float8(std::vector<StoredWeight>& parts) {
    std::vector<WeightSource> sources;
    for (StoredWeight& part : parts) {
      part.source.activations = ActivationDtype::f8;
      sources.push_back(part.source);
    }
    return prepare(sources);
  }
  std::vector<float> run(Weight* weight, const std::vector<float>& input, size_t rows, size_t columns) {
    LinearParams p;
    p.weight = weight;
    p.input = to_device(to_halves(input));
    p.rows = static_cast<int32_t>(rows);
    auto* out = poisoned<float>(rows * columns);
    p.output_f32 = out;
    EXPECT_EQ(table_->linear(context_, &p), Status::ok);
    return from_device(out, rows * columns);
  }
  static std::vector<double> product(const std::vector<float>& input, size_t rows,
                                     const std::vector<StoredWeight>& parts) {
    size_t columns = 0, first = 0;
    for (const StoredWeight& part : parts) columns += static_cast<size_t>(part.source.num_out);
    std::vector<double> out(rows * columns);
    for (const StoredWeight& part : parts) {
      const auto depth = static_cast<size_t>(part.source.num_in),
                 width = static_cast<size_t>(part.source.num_out);
      const std::vector<float> seen = rounded_rows(input, rows, depth);
      for (size_t r = 0; r < rows; ++r) {
        for (size_t n = 0; n < width; ++n) {
          double sum = part.bias.empty() ? 0.0 : static_cast<double>(part.bias[n]);
          for (size_t k = 0; k < depth; ++k)
            sum += static_cast<double>(seen[r * depth + k]) * static_cast<double>(part.values[k * width + n]);
          out[r * columns + first + n] = sum;
        }
      }
      first += width;
    }
    return out;
  }
  // Checks products, and that a row's results do not depend on the other rows.
  void check(std::vector<StoredWeight>& parts, std::initializer_list<size_t> row_counts) {
    Weight* weight = prepare_float8(parts);
    ASSERT_NE(weight, nullptr);
    const auto depth = static_cast<size_t>(parts[0].source.num_in);
    size_t columns = 0;
    for (const StoredWeight& part : parts) columns += static_cast<size_t>(part.source.num_out);
    const std::vector<float> most =
        to_floats(to_halves(random_floats(std::max(row_counts) * depth, random_)));
    const std::vector<double> expected = product(most, std::max(row_counts), parts);
    std::vector<float> before;
    for (const size_t rows : row_counts) {
      const std::vector<float> input(most.begin(), most.begin() + static_cast<ptrdiff_t>(rows * depth));
      const std::vector<float> out = run(weight, input, rows, columns);
      const auto end = expected.begin() + static_cast<ptrdiff_t>(rows * columns);
      // The tensor cores keep 14 bits of the sums of a product.
      EXPECT_LT(relative_error(out, std::vector<double>(expected.begin(), end)), 1e-3) << rows << " rows";
      const size_t common = std::min(out.size(), before.size());
      EXPECT_EQ(std::memcmp(out.data(), before.data(), common * sizeof(float)), 0) << rows << " rows";
      before = out;
    }
  }
  std::mt19937 random_{std::random_device{}()};
};

TEST_F(Float8Test, ProductsEqualThoseOfRoundedRows) {
  for (const auto& [scale_out, scale_in] : {std::pair{128, 128}, {1, 0}, {0, 0}, {48, 256}, {1, 128}}) {
    SCOPED_TRACE(std::to_string(scale_out) + " x " + std::to_string(scale_in));
    std::vector<StoredWeight> parts(1);
    make_fp8(parts[0], 845, 203, scale_out, scale_in, random_);
    check(parts, {1, 5, 16, 30, 64, 100});
  }
}

// More rows than a tile has, more than one tile, and K of one block, which leaves three chains empty.
TEST_F(Float8Test, RowsDoNotDependOnTheirTile) {
  for (const auto& [depth, columns] : {std::pair{128, 64}, {640, 300}, {100, 130}}) {
    std::vector<StoredWeight> parts(1);
    make_fp8(parts[0], depth, columns, 1, 0, random_);
    check(parts, {300, 129, 128, 65, 17, 9, 8, 1});
  }
}

TEST_F(Float8Test, PartsAreAdjacentInTheOutput) {
  std::vector<StoredWeight> parts(3);
  make_fp8(parts[0], 512, 192, 128, 128, random_);
  make_fp8(parts[1], 512, 40, 1, 0, random_);
  make_fp8(parts[2], 512, 40, 0, 0, random_);
  for (StoredWeight& part : parts) {
    part.bias = random_floats(static_cast<size_t>(part.source.num_out), random_);
    part.source.bias = part.bias.data();
  }
  check(parts, {1, 33, 130});
}

// Two parts of one width are gate and up; columns may be in any order.
TEST_F(Float8Test, GateAndUpAreAdjacentInTheOutput) {
  for (const int32_t columns : {8, 96, 200}) {
    std::vector<StoredWeight> parts(2);
    for (StoredWeight& part : parts) make_fp8(part, 384, columns, 1, 128, random_);
    check(parts, {1, 33, 130});
  }
}

TEST_F(Float8Test, WeightsDequantizeExactly) {
  std::vector<StoredWeight> parts(2);
  for (StoredWeight& part : parts) {
    make_fp8(part, 333, 144, 48, 256, random_);
    permute_columns(part, random_);
  }
  Weight* weight = prepare_float8(parts);
  ASSERT_NE(weight, nullptr);
  std::vector<float> values(size_t{333} * 288);
  ASSERT_EQ(table_->dequantize(device_, weight, values.data()), Status::ok);
  for (size_t k = 0; k < 333; ++k) {
    for (size_t n = 0; n < 288; ++n) {
      const std::vector<float>& stored = parts[n / 144].stored_values;
      ASSERT_EQ(values[k * 288 + n], stored[k * 144 + n % 144]) << k << ", " << n;
    }
  }
}

// Rows of zeros, of one value, and of values of very different magnitudes.
TEST_F(Float8Test, RowsOfAnyMagnitudeMatch) {
  std::vector<StoredWeight> parts(1);
  make_fp8(parts[0], 256, 64, 1, 0, random_);
  Weight* weight = prepare_float8(parts);
  std::vector<float> input(size_t{4} * 256, 0.0f);
  for (size_t k = 0; k < 256; ++k) {
    input[256 + k] = k == 77 ? 3.0f : 0.0f;
    input[512 + k] = k < 128 ? 60000.0f : 6e-8f;
    input[768 + k] = k % 3 == 0 ? -65504.0f : 65504.0f;
  }
  input = to_floats(to_halves(input));
  const std::vector<float> out = run(weight, input, 4, 64);
  const std::vector<double> expected = product(input, 4, parts);
  for (size_t n = 0; n < 64; ++n) EXPECT_EQ(out[n], 0.0f);
  for (size_t r = 1; r < 4; ++r) {
    const std::vector<float> of_row(out.begin() + static_cast<ptrdiff_t>(r * 64),
                                    out.begin() + static_cast<ptrdiff_t>(r * 64 + 64));
    const std::vector<double> of_expected(expected.begin() + static_cast<ptrdiff_t>(r * 64),
                                          expected.begin() + static_cast<ptrdiff_t>(r * 64 + 64));
    EXPECT_LT(relative_error(of_row, of_expected), 1e-3) << r;
  }
}

// A NaN shows in the results of its row, and in no others.
TEST_F(Float8Test, NaNStaysInItsRow) {
  std::vector<StoredWeight> parts(1);
  make_fp8(parts[0], 256, 64, 1, 0, random_);
  Weight* weight = prepare_float8(parts);
  std::vector<float> input = to_floats(to_halves(random_floats(size_t{3} * 256, random_)));
  const std::vector<float> sound = run(weight, input, 3, 64);
  for (const float bad : {NAN, INFINITY}) {
    std::vector<float> broken = input;
    broken[256 + 200] = bad;
    const std::vector<float> out = run(weight, broken, 3, 64);
    for (size_t n = 0; n < 64; ++n) {
      EXPECT_EQ(out[n], sound[n]);
      EXPECT_TRUE(std::isnan(out[64 + n]));
      EXPECT_EQ(out[128 + n], sound[128 + n]);
    }
  }
}

// The fused norm with rounding equals the norm followed by the rounding.
TEST_F(Float8Test, FusedNormEqualsNormAndRounding) {
  constexpr int32_t kDepth = 520, kColumns = 72;
  std::vector<StoredWeight> parts(1);
  make_fp8(parts[0], kDepth, kColumns, 1, 0, random_);
  Weight* weight = prepare_float8(parts);
  const std::vector<float> hidden = random_floats(size_t{40} * kDepth, random_);
  const std::vector<int32_t> chosen = {3, 39, 0, 17, 17};
  for (const NormKind kind : {NormKind::rms, NormKind::layer}) {
    NormParams norm;
    norm.kind = kind;
    norm.columns = kDepth;
    norm.weight = to_device(random_floats(kDepth, random_));
    norm.input = to_device(hidden);
    norm.row_index = to_device(chosen);
    norm.rows = static_cast<int32_t>(chosen.size());
    NormParams apart = norm;
    auto* normed = poisoned<uint16_t>(chosen.size() * kDepth);
    apart.output = normed;
    ASSERT_EQ(table_->norm(context_, &apart), Status::ok);
    const std::vector<float> rows = to_floats(from_device(normed, chosen.size() * kDepth));
    const std::vector<float> expected = run(weight, rows, chosen.size(), kColumns);

    HeadParams head;
    head.norm = norm;
    head.head = weight;
    head.vocab_size = kColumns;
    head.batch.num_logit_rows = norm.rows;
    head.batch.logit_rows = norm.row_index;
    head.workspace.hidden = const_cast<float*>(norm.input);
    auto* logits = poisoned<float>(chosen.size() * kColumns);
    head.workspace.logits = logits;
    ASSERT_EQ(table_->head(context_, &head), Status::ok);
    EXPECT_EQ(from_device(logits, chosen.size() * kColumns), expected);
  }
}

// act(gate) * up is computed in the registers that hold both sums; the residual stream is added later.
TEST_F(Float8Test, AFeedForwardBlockEqualsItsProducts) {
  constexpr int32_t kHidden = 256, kInner = 136;
  std::vector<StoredWeight> gate_up(2), down(1);
  for (StoredWeight& part : gate_up) make_fp8(part, kHidden, kInner, 1, 0, random_);
  make_fp8(down[0], kInner, kHidden, 0, 0, random_);
  Weight* first = prepare_float8(gate_up);
  Weight* second = prepare_float8(down);
  for (const size_t rows : {1, 21, 140}) {
    const std::vector<float> input = to_floats(to_halves(random_floats(rows * kHidden, random_)));
    const std::vector<float> residual = random_floats(rows * kHidden, random_);
    const std::vector<float> products = run(first, input, rows, size_t{2} * kInner);
    MlpBlockParams block;
    block.gate_up = first;
    block.down = second;
    block.gated = true;
    block.activation = Activation::silu;
    block.intermediate = kInner;
    block.num_tokens = static_cast<int32_t>(rows);
    block.input = to_device(to_halves(input));
    auto* activated = poisoned<uint16_t>(rows * kInner);
    block.workspace.activated = activated;
    float* hidden = to_device(residual);
    block.workspace.hidden = hidden;
    ASSERT_EQ(table_->mlp_block(context_, &block), Status::ok);
    const std::vector<float> seen = to_floats(from_device(activated, rows * kInner));
    std::vector<double> expected;
    for (size_t r = 0; r < rows; ++r) {
      for (size_t c = 0; c < kInner; ++c) {
        const auto gate = static_cast<double>(products[r * 2 * kInner + c]);
        expected.push_back(gate / (1.0 + std::exp(-gate)) *
                           static_cast<double>(products[r * 2 * kInner + kInner + c]));
      }
    }
    EXPECT_LT(relative_error(seen, expected), 1e-3);
    const std::vector<float> result = run(second, seen, rows, kHidden);
    const std::vector<float> out = from_device(hidden, rows * kHidden);
    for (size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], residual[i] + result[i]) << i;
  }
}

// Scales that change within 128 rows are not supported: such a matrix is multiplied with full activations.
TEST_F(Float8Test, FineScalesUseFullActivations) {
  StoredWeight w;
  make_fp8(w, 384, 66, 1, 64, random_);
  const std::vector<float> input = to_floats(to_halves(random_floats(size_t{5} * 384, random_)));
  const std::vector<float> full = run(prepare({w.source}), input, 5, 66);
  w.source.activations = ActivationDtype::f8;
  EXPECT_EQ(run(prepare({w.source}), input, 5, 66), full);
}

// If one part of a matrix is not supported, the whole matrix is multiplied with full activations.
TEST_F(Float8Test, AllPartsOfAMatrixUseTheSameActivations) {
  std::vector<StoredWeight> parts(2);
  make_fp8(parts[0], 384, 66, 1, 64, random_);
  make_fp8(parts[1], 384, 40, 1, 0, random_);
  const std::vector<float> input = to_floats(to_halves(random_floats(size_t{5} * 384, random_)));
  const std::vector<float> full = run(prepare({parts[0].source, parts[1].source}), input, 5, 106);
  EXPECT_EQ(run(prepare_float8(parts), input, 5, 106), full);
}

}  // namespace
}  // namespace quire::kernels
