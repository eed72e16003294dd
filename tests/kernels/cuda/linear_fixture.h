// Compares products of a card with sums in double precision.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <vector>

#include "tests/kernels/cuda/cuda_device.h"
#include "tests/kernels/cuda/random_weights.h"

namespace quire::kernels {

inline std::vector<double> product(const std::vector<float>& input, size_t rows,
                                   const std::vector<const StoredWeight*>& parts) {
  size_t columns = 0;
  for (const StoredWeight* part : parts) columns += static_cast<size_t>(part->source.num_out);
  const auto depth = static_cast<size_t>(parts[0]->source.num_in);
  std::vector<double> out(rows * columns);
  for (size_t r = 0; r < rows; ++r) {
    size_t first = 0;
    for (const StoredWeight* part : parts) {
      const auto width = static_cast<size_t>(part->source.num_out);
      for (size_t k = 0; k < depth; ++k)
        for (size_t n = 0; n < width; ++n)
          out[r * columns + first + n] +=
              static_cast<double>(input[r * depth + k]) * static_cast<double>(part->values[k * width + n]);
      for (size_t n = 0; n < width && !part->bias.empty(); ++n)
        out[r * columns + first + n] += static_cast<double>(
            part->bias[part->column_order.empty() ? n : static_cast<size_t>(part->column_order[n])]);
      first += width;
    }
  }
  return out;
}

// Returns the RMS of the errors of results, relative to the RMS of what is expected of these and further
// rows: the results of a few rows may be small by chance.
inline double error_of_rows(const std::vector<float>& found, const std::vector<double>& expected) {
  double errors = 0.0, size = 0.0;
  for (size_t i = 0; i < found.size(); ++i)
    errors += (double{found[i]} - expected[i]) * (double{found[i]} - expected[i]);
  for (const double value : expected) size += value * value;
  return std::sqrt(errors / static_cast<double>(found.size()) /
                   (size > 0.0 ? size / static_cast<double>(expected.size()) : 1.0));
}

class LinearTest : public CudaTest {
 protected:
  static std::vector<WeightSource> sources(const std::vector<StoredWeight*>& parts) {
    std::vector<WeightSource> out;
    for (const StoredWeight* part : parts) out.push_back(part->source);
    return out;
  }
  std::vector<float> run_f32(Weight* weight, const std::vector<float>& input, size_t rows, size_t columns) {
    LinearParams p;
    p.weight = weight;
    p.input = to_device(to_halves(input));
    p.rows = static_cast<int32_t>(rows);
    auto* out = poisoned<float>(rows * columns);
    p.output_f32 = out;
    EXPECT_EQ(table_->linear(context_, &p), Status::ok);
    return from_device(out, rows * columns);
  }
  void check_product(const std::vector<StoredWeight*>& parts, std::initializer_list<size_t> row_counts,
                     double tolerance = 2e-4) {
    Weight* weight = prepare(sources(parts));
    ASSERT_NE(weight, nullptr);
    const auto depth = static_cast<size_t>(parts[0]->source.num_in);
    size_t columns = 0;
    for (const StoredWeight* part : parts) columns += static_cast<size_t>(part->source.num_out);
    std::vector<float> before;
    const size_t most_rows = *std::max_element(row_counts.begin(), row_counts.end());
    const std::vector<float> most = to_floats(to_halves(random_floats(most_rows * depth, random_)));
    const std::vector<double> expected = product(most, most_rows, {parts.begin(), parts.end()});
    for (const size_t rows : row_counts) {
      const std::vector<float> input(most.begin(), most.begin() + static_cast<ptrdiff_t>(rows * depth));
      const std::vector<float> out = run_f32(weight, input, rows, columns);
      EXPECT_LT(error_of_rows(out, expected), tolerance) << rows << " rows";
      // A row has the same bits whatever the other rows are.
      if (before.empty()) before = out;
      const size_t common = std::min(out.size(), before.size());
      EXPECT_EQ(std::memcmp(out.data(), before.data(), common * sizeof(float)), 0) << rows << " rows";
      before = out;
    }
  }
  void check_values(StoredWeight& stored, double tolerance) {
    Weight* weight = prepare({stored.source});
    ASSERT_NE(weight, nullptr);
    std::vector<float> values(stored.stored_values.size());
    ASSERT_EQ(table_->dequantize(device_, weight, values.data()), Status::ok);
    if (tolerance == 0.0) {
      const std::vector<float> expected = to_floats(to_halves(stored.stored_values));
      for (size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(values[i], expected[i], stored.step) << i;
    } else {
      EXPECT_LT(relative_error(values, stored.stored_values), tolerance);
    }
  }
  std::mt19937 random_{std::random_device{}()};
};

}  // namespace quire::kernels
